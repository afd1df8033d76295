//go:build linux

package loop

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/internal/loopdev"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/nodefs"
)

// The benchmarks compare an operation of the driver with the commands that a user would type, and
// with the least that is necessary, which is a few system calls. The three alternate, so other load
// affects all of them. The results are medians in microseconds, and the driver's time per 100 of
// the commands'.

// ways are the ways to do an operation.
type ways struct {
	// prepare and after are not measured and may be nil.
	prepare, after func(i int)
	driver         func(i int)
	commands       func(i int)
	floor          func(i int) // nil: the commands are the least
}

func (w ways) run(b *testing.B) {
	b.Helper()
	took := map[string][]float64{}
	measure := func(name string, do func(int), i int) {
		if do == nil {
			return
		}
		began := time.Now()
		do(i)
		took[name] = append(took[name], float64(time.Since(began).Nanoseconds())/1e3)
	}
	for i := range b.N {
		if w.prepare != nil {
			w.prepare(i)
		}
		measure("driver", w.driver, i)
		measure("commands", w.commands, i)
		measure("floor", w.floor, i)
		if w.after != nil {
			w.after(i)
		}
	}
	median := func(name string) float64 {
		slices.Sort(took[name])
		return took[name][len(took[name])/2]
	}
	for name := range took {
		b.ReportMetric(median(name), name+"-µs")
	}
	b.ReportMetric(100*median("driver")/median("commands"), "%")
	b.ReportMetric(0, "ns/op") // of all three together, which is meaningless
}

// newLife returns a driver whose volumes are in memory, so that the disk is not measured.
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

// typed runs a command as a shell would.
func typed(b *testing.B, command ...string) string {
	output, err := exec.CommandContext(b.Context(), command[0], command[1:]...).Output()
	if err != nil {
		b.Helper()
		b.Fatalf("%v: %v", command, err)
	}
	return string(output)
}

// typedFile creates a file of the driver's smallest volume size.
func typedFile(b *testing.B, name string) { typed(b, "truncate", "-s", fmt.Sprint(bytesMin), name) }

// typedDevice binds a file to a loop device.
func typedDevice(b *testing.B, file string) string {
	output := typed(b, "losetup", "--find", "--show", file)
	return output[:len(output)-1]
}

// BenchmarkCreateDelete creates and removes a volume. The commands create a file without a record.
func BenchmarkCreateDelete(b *testing.B) {
	l := newLife(b)
	file := l.root + "/file"
	ways{
		driver: func(i int) {
			id, err := l.create(b.Context(), fmt.Sprint(i))
			testcheck.NoError(b, err)
			testcheck.NoError(b, l.delete(b.Context(), id))
		},
		commands: func(int) {
			typedFile(b, file)
			typed(b, "rm", file)
		},
		floor: func(int) {
			testcheck.NoError(b, makeFile(file))
			testcheck.NoError(b, os.Remove(file))
		},
	}.run(b)
}

func makeFile(name string) error {
	return errors.Join(os.WriteFile(name, nil, 0o600), os.Truncate(name, bytesMin))
}

// BenchmarkAttachDetach attaches and detaches a volume; at the least, LOOP_CONFIGURE and
// LOOP_CLR_FD.
func BenchmarkAttachDetach(b *testing.B) {
	l := newLife(b)
	id, err := l.create(b.Context(), "volume")
	testcheck.NoError(b, err)
	file := l.root + "/file"
	testcheck.NoError(b, makeFile(file))
	ways{
		driver: func(int) {
			_, err := l.attach(b.Context(), id)
			testcheck.NoError(b, err)
			testcheck.NoError(b, l.detach(b.Context(), id))
		},
		commands: func(int) { typed(b, "losetup", "-d", typedDevice(b, file)) },
		floor:    func(int) { unbind(b, bind(b, file)) },
	}.run(b)
}

func bind(b *testing.B, file string) string {
	device, err := loopdev.Bind(b.Context(), file, "bare", false)
	testcheck.NoError(b, err)
	return device
}

func unbind(b *testing.B, device string) {
	node, err := os.Open(device)
	testcheck.NoError(b, err)
	testcheck.NoError(b, unix.IoctlSetInt(int(node.Fd()), unix.LOOP_CLR_FD, 0))
	testcheck.NoError(b, node.Close())
}

// BenchmarkStageNew stages and unstages a new volume.
func BenchmarkStageNew(b *testing.B) {
	l := newLife(b)
	file, place := l.root+"/file", l.root+"/mount"
	testcheck.NoError(b, os.MkdirAll(place, 0o750))
	var id, device, byHand string
	ways{
		prepare: func(i int) {
			var err error
			id, err = l.create(b.Context(), fmt.Sprint(i))
			testcheck.NoError(b, err)
			device, err = l.attach(b.Context(), id)
			testcheck.NoError(b, err)
			testcheck.NoError(b, makeFile(file))
			byHand = bind(b, file)
		},
		driver: func(int) {
			testcheck.NoError(b, l.stage(b.Context(), id, device))
			testcheck.NoError(b, l.unstage(b.Context(), id))
		},
		commands: func(int) {
			typed(b, "mkfs.ext4", "-q", byHand)
			typed(b, "mount", byHand, place)
			typed(b, "umount", place)
		},
		after: func(int) {
			testcheck.NoError(b, errors.Join(l.detach(b.Context(), id), l.delete(b.Context(), id)))
			unbind(b, byHand)
			testcheck.NoError(b, os.Remove(file))
		},
	}.run(b)
}

// BenchmarkStageAgain stages and unstages a formatted volume, which the driver checks. The least is
// a mount and an unmount.
func BenchmarkStageAgain(b *testing.B) {
	l := newLife(b)
	id, err := l.create(b.Context(), "volume")
	testcheck.NoError(b, err)
	device, err := l.attach(b.Context(), id)
	testcheck.NoError(b, err)
	testcheck.NoError(b, l.stage(b.Context(), id, device))
	testcheck.NoError(b, l.unstage(b.Context(), id))
	place := l.root + "/mount"
	testcheck.NoError(b, os.MkdirAll(place, 0o750))
	ways{
		driver: func(int) {
			testcheck.NoError(b, l.stage(b.Context(), id, device))
			testcheck.NoError(b, l.unstage(b.Context(), id))
		},
		commands: func(int) {
			typed(b, "fsck", "-a", device)
			typed(b, "mount", device, place)
			typed(b, "umount", place)
		},
		floor: func(int) {
			testcheck.NoError(b, unix.Mount(device, place, "ext4", 0, "discard"))
			testcheck.NoError(b, unix.Unmount(place, 0))
		},
	}.run(b)
}

// BenchmarkPublish publishes and unpublishes a staged volume.
func BenchmarkPublish(b *testing.B) {
	l := newLife(b)
	id, err := l.create(b.Context(), "volume")
	testcheck.NoError(b, err)
	device, err := l.attach(b.Context(), id)
	testcheck.NoError(b, err)
	testcheck.NoError(b, l.stage(b.Context(), id, device))
	target, place := l.root+"/pods/one", l.root+"/mount"
	testcheck.NoError(b, os.MkdirAll(filepath.Dir(target), 0o750))
	ways{
		driver: func(int) {
			_, err := l.node.NodePublishVolume(b.Context(), &csi.NodePublishVolumeRequest{
				VolumeId: id, StagingTargetPath: l.staging(id), TargetPath: target, VolumeCapability: writer,
			})
			testcheck.NoError(b, err)
			_, err = l.node.NodeUnpublishVolume(b.Context(), &csi.NodeUnpublishVolumeRequest{
				VolumeId: id, TargetPath: target,
			})
			testcheck.NoError(b, err)
		},
		commands: func(int) {
			typed(b, "mkdir", place)
			typed(b, "mount", "--bind", l.staging(id), place)
			typed(b, "umount", place)
			typed(b, "rmdir", place)
		},
		floor: func(int) {
			testcheck.NoError(b, os.Mkdir(place, 0o750))
			testcheck.NoError(b, unix.Mount(l.staging(id), place, "", unix.MS_BIND, ""))
			testcheck.NoError(b, unix.Unmount(place, 0))
			testcheck.NoError(b, os.Remove(place))
		},
	}.run(b)
}

// BenchmarkGrow grows a volume with an unmounted ext4 by a block, and its file system.
func BenchmarkGrow(b *testing.B) {
	l := newLife(b)
	id, err := l.create(b.Context(), "volume")
	testcheck.NoError(b, err)
	device, err := l.attach(b.Context(), id)
	testcheck.NoError(b, err)
	testcheck.NoError(b, l.stage(b.Context(), id, device))
	testcheck.NoError(b, l.unstage(b.Context(), id))
	file, place := l.root+"/file", l.root+"/mount"
	testcheck.NoError(b, os.MkdirAll(place, 0o750))
	testcheck.NoError(b, makeFile(file))
	byHand := bind(b, file)
	b.Cleanup(func() { unbind(b, byHand) })
	typed(b, "mkfs.ext4", "-q", byHand)
	size := func(i int) int64 { return bytesMin + int64(i+1)*mebibyte }
	ways{
		driver: func(i int) {
			_, err := l.Controller().ControllerExpandVolume(b.Context(), &csi.ControllerExpandVolumeRequest{
				VolumeId: id, CapacityRange: &csi.CapacityRange{RequiredBytes: size(i)},
			})
			testcheck.NoError(b, err)
			testcheck.NoError(b, l.stage(b.Context(), id, device))
			testcheck.NoError(b, l.unstage(b.Context(), id))
		},
		commands: func(i int) {
			typed(b, "truncate", "-s", fmt.Sprint(size(i)), file)
			typed(b, "losetup", "-c", byHand)
			typed(b, "e2fsck", "-f", "-p", byHand)
			typed(b, "resize2fs", byHand)
			typed(b, "mount", byHand, place)
			typed(b, "umount", place)
		},
	}.run(b)
}

// BenchmarkSnapshot creates a snapshot of 8 MiB and removes it. The least is a copy of the file.
func BenchmarkSnapshot(b *testing.B) {
	l := newLife(b)
	id, err := l.create(b.Context(), "volume")
	testcheck.NoError(b, err)
	image, file := l.pool.image(id), l.root+"/copy"
	testcheck.NoError(b, os.WriteFile(image, make([]byte, 8*mebibyte), 0o600))
	ways{
		driver: func(i int) {
			snapshot, err := l.snapshot(b.Context(), fmt.Sprint(i), id)
			testcheck.NoError(b, err)
			testcheck.NoError(b, l.deleteSnapshot(b.Context(), snapshot))
		},
		commands: func(int) {
			typed(b, "cp", "--sparse=auto", image, file)
			typed(b, "rm", file)
		},
		floor: func(int) {
			from, err := os.Open(image)
			testcheck.NoError(b, err)
			to, err := os.Create(file)
			testcheck.NoError(b, err)
			_, err = to.ReadFrom(from)
			testcheck.NoError(b, errors.Join(err, to.Close(), from.Close(), os.Remove(file)))
		},
	}.run(b)
}

// BenchmarkLife creates, attaches, stages, writes and reads a volume, and undoes everything.
func BenchmarkLife(b *testing.B) {
	l := newLife(b)
	file, place := l.root+"/file", l.root+"/mount"
	testcheck.NoError(b, os.MkdirAll(place, 0o750))
	ways{
		driver: func(i int) { testcheck.NoError(b, l.live(b.Context(), fmt.Sprint(i))) },
		commands: func(int) {
			typedFile(b, file)
			device := typedDevice(b, file)
			typed(b, "mkfs.ext4", "-q", device)
			typed(b, "mount", device, place)
			testcheck.NoError(b, writeAndRead(place+"/file", "manual"))
			typed(b, "umount", place)
			typed(b, "losetup", "-d", device)
			typed(b, "rm", file)
		},
		floor: func(int) {
			testcheck.NoError(b, makeFile(file))
			device := bind(b, file)
			typed(b, "mkfs.ext4", "-q", device)
			testcheck.NoError(b, unix.Mount(device, place, "ext4", 0, ""))
			testcheck.NoError(b, writeAndRead(place+"/file", "at the least"))
			testcheck.NoError(b, unix.Unmount(place, 0))
			unbind(b, device)
			testcheck.NoError(b, os.Remove(file))
		},
	}.run(b)
}
