//go:build linux

package loop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/nodefs"
	"github.com/volsim/volsim/nodefs/loopdev"
)

// The benchmarks measure an operation as the driver does it beside what has to
// happen at the least, done by hand: the difference is the driver's own.

// newLife returns a driver whose volumes live in memory, so that what is measured is not the disk.
func newLife(b *testing.B) *life {
	b.Helper()
	needDevices(b)
	base := quickDir(b)
	d, err := New(Config{Dir: filepath.Join(base, "images")})
	if err != nil {
		b.Fatal(err)
	}
	fs, err := nodefs.NewReal(filepath.Join(base, "node"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := errors.Join(fs.UnmountAll(), d.Close()); err != nil {
			b.Errorf("clean up: %v", err)
		}
	})
	return &life{Driver: d, node: d.Node("one", fs), root: filepath.Join(base, "node")}
}

func check(b *testing.B, err error) {
	if err != nil {
		b.Helper()
		b.Fatal(err)
	}
}

// BenchmarkCreateDelete makes and removes a volume; by hand, the file of its size.
func BenchmarkCreateDelete(b *testing.B) {
	l := newLife(b)
	b.Run("driver", func(b *testing.B) {
		for i := range b.N {
			id, err := l.create(b.Context(), fmt.Sprint(i))
			check(b, err)
			check(b, l.delete(b.Context(), id))
		}
	})
	b.Run("bare", func(b *testing.B) {
		for range b.N {
			check(b, makeFile(l.root+"/file"))
			check(b, os.Remove(l.root+"/file"))
		}
	})
}

func makeFile(name string) error {
	return errors.Join(os.WriteFile(name, nil, 0o600), os.Truncate(name, bytesMin))
}

// BenchmarkAttachDetach attaches and detaches a volume; by hand, LOOP_CONFIGURE and LOOP_CLR_FD.
func BenchmarkAttachDetach(b *testing.B) {
	l := newLife(b)
	id, err := l.create(b.Context(), "volume")
	check(b, err)
	b.Run("driver", func(b *testing.B) {
		for range b.N {
			_, err := l.attach(b.Context(), id)
			check(b, err)
			check(b, l.detach(b.Context(), id))
		}
	})
	file := l.root + "/file"
	check(b, makeFile(file))
	b.Run("bare", func(b *testing.B) {
		for range b.N {
			device := bind(b, file)
			unbind(b, device)
		}
	})
}

func bind(b *testing.B, file string) string {
	device, err := loopdev.Bind(b.Context(), file, "bare", false)
	check(b, err)
	return device
}

func unbind(b *testing.B, device string) {
	node, err := os.Open(device)
	check(b, err)
	check(b, unix.IoctlSetInt(int(node.Fd()), unix.LOOP_CLR_FD, 0))
	check(b, node.Close())
}

// BenchmarkStageNew stages and unstages a new volume; by hand, mkfs, mount and umount.
func BenchmarkStageNew(b *testing.B) {
	l := newLife(b)
	b.Run("driver", func(b *testing.B) {
		for i := range b.N {
			b.StopTimer()
			id, err := l.create(b.Context(), fmt.Sprint(i))
			check(b, err)
			device, err := l.attach(b.Context(), id)
			check(b, err)
			b.StartTimer()
			check(b, l.stage(b.Context(), id, device))
			check(b, l.unstage(b.Context(), id))
			b.StopTimer()
			check(b, errors.Join(l.detach(b.Context(), id), l.delete(b.Context(), id)))
			b.StartTimer()
		}
	})
	b.Run("bare", func(b *testing.B) {
		for range b.N {
			b.StopTimer()
			file := l.root + "/file"
			check(b, makeFile(file))
			device := bind(b, file)
			b.StartTimer()
			bareMount(b.Context(), b, device, l.root+"/mount", true, nothing)
			b.StopTimer()
			unbind(b, device)
			check(b, os.Remove(file))
			b.StartTimer()
		}
	})
}

// BenchmarkStageAgain stages and unstages a volume that has a file system; by hand, fsck, mount and umount.
func BenchmarkStageAgain(b *testing.B) {
	l := newLife(b)
	id, err := l.create(b.Context(), "volume")
	check(b, err)
	device, err := l.attach(b.Context(), id)
	check(b, err)
	check(b, l.stage(b.Context(), id, device))
	check(b, l.unstage(b.Context(), id))
	b.Run("driver", func(b *testing.B) {
		for range b.N {
			check(b, l.stage(b.Context(), id, device))
			check(b, l.unstage(b.Context(), id))
		}
	})
	b.Run("bare", func(b *testing.B) {
		for range b.N {
			bareMount(b.Context(), b, device, l.root+"/mount", false, nothing)
		}
	})
}

func nothing() error { return nil }

// bareMount runs what staging and unstaging has to run: it looks what is on the
// device, makes a file system or checks it, and mounts it, has it used and unmounts it.
func bareMount(ctx context.Context, b *testing.B, device, place string, format bool, use func() error) {
	check(b, os.MkdirAll(place, 0o750))
	commands := [][]string{{"blkid", "-p", "-s", "TYPE", "-s", "PTTYPE", "-o", "export", device}}
	if format {
		commands = append(commands, []string{"mkfs.ext4", "-F", "-m0", device})
	} else {
		commands = append(commands, []string{"fsck", "-a", device})
	}
	commands = append(commands, []string{"mount", "-t", "ext4", "-o", "discard,defaults", device, place}, []string{"umount", place})
	for i, command := range commands {
		if command[0] == "umount" {
			check(b, use())
		}
		if err := exec.CommandContext(ctx, command[0], command[1:]...).Run(); err != nil && i > 0 { // blkid fails where there is nothing
			b.Fatalf("%v: %v", command, err)
		}
	}
}

// BenchmarkSnapshot makes a snapshot of 8 MiB and removes it; by hand, a copy of its file.
func BenchmarkSnapshot(b *testing.B) {
	l := newLife(b)
	id, err := l.create(b.Context(), "volume")
	check(b, err)
	check(b, os.WriteFile(l.pool.image(id), make([]byte, 8*mebibyte), 0o600))
	b.Run("driver", func(b *testing.B) {
		for i := range b.N {
			wish := fmt.Sprint(i)
			snapshot, err := l.snapshot(b.Context(), wish, id)
			check(b, err)
			check(b, l.deleteSnapshot(b.Context(), snapshot))
		}
	})
	b.Run("bare", func(b *testing.B) {
		for range b.N {
			from, err := os.Open(l.pool.image(id))
			check(b, err)
			to, err := os.Create(l.root + "/copy")
			check(b, err)
			_, err = to.ReadFrom(from)
			check(b, errors.Join(err, to.Close(), from.Close(), os.Remove(l.root+"/copy")))
		}
	})
}

// BenchmarkLife lets a volume live its life; by hand, with all it takes.
func BenchmarkLife(b *testing.B) {
	l := newLife(b)
	b.Run("driver", func(b *testing.B) {
		for i := range b.N {
			check(b, l.live(b.Context(), fmt.Sprint(i)))
		}
	})
	b.Run("bare", func(b *testing.B) {
		for range b.N {
			file := l.root + "/file"
			check(b, makeFile(file))
			device := bind(b, file)
			bareMount(b.Context(), b, device, l.root+"/mount", true, func() error { return writeAndRead(l.root+"/mount/file", "bare") })
			unbind(b, device)
			check(b, os.Remove(file))
		}
	})
}
