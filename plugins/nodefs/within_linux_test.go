package nodefs

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/internal/testcheck"
)

// attacked is a node with a volume in which dir and link can be exchanged at any moment; link leads
// outside.
type attacked struct {
	*Real
	root, volume, outside string
}

func newAttacked(t *testing.T) attacked {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("real mounts need root")
	}
	root := t.TempDir()
	node, err := NewReal(root)
	testcheck.NoError(t, err)
	t.Cleanup(func() { testcheck.NoError(t, node.UnmountAll()) })
	a := attacked{node, root, filepath.Join(root, "volume"), filepath.Join(root, "outside")}
	for _, dir := range []string{"volume/dir/inner", "outside/inner", "target"} {
		testcheck.NoError(t, os.MkdirAll(filepath.Join(root, dir), 0o750))
	}
	testcheck.NoError(t, os.WriteFile(filepath.Join(a.outside, "inner", "secret"), nil, 0o600))
	testcheck.NoError(t, os.WriteFile(filepath.Join(a.volume, "dir", "inner", "own"), nil, 0o600))
	testcheck.NoError(t, os.Symlink("../outside", filepath.Join(a.volume, "link")))
	return a
}

func (a attacked) swap() error {
	return unix.Renameat2(unix.AT_FDCWD, a.volume+"/dir", unix.AT_FDCWD, a.volume+"/link", unix.RENAME_EXCHANGE)
}

// swapAllTheTime exchanges them until the returned function is called.
func (a attacked) swapAllTheTime(t *testing.T) (end func()) {
	t.Helper()
	over := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				if err := a.swap(); err != nil {
					t.Errorf("swap: %v", err)
					return
				}
			}
		}
	})
	return func() {
		close(over)
		swapping.Wait()
	}
}

// TestLaterLinkIsNotFollowed replaces a directory by a link after the path was resolved.
func TestLaterLinkIsNotFollowed(t *testing.T) {
	for _, inner := range []string{"dir", "dir/inner", "dir/inner/own"} {
		a := newAttacked(t)
		way, err := a.pathWithin(a.volume, inner)
		testcheck.NoError(t, err)
		testcheck.NoError(t, a.swap())
		if file, err := way.open(); !errors.Is(err, ErrNotWithin) {
			t.Errorf("%s: opened %v, %v; want ErrNotWithin", inner, file, err)
		}
	}
	a := newAttacked(t)
	way, err := a.pathWithin(a.volume, "dir")
	testcheck.NoError(t, err)
	testcheck.NoError(t, os.Mkdir(a.outside+"/dir", 0o750))
	testcheck.NoError(t, os.Rename(a.volume, a.volume+"2"))
	testcheck.NoError(t, os.Symlink("outside", a.volume))
	if file, err := way.open(); err == nil {
		t.Errorf("the volume itself is a link, and %s was opened", file.Name())
	}
}

// TestBindUsesTheOpenedFile replaces the path after it was opened.
func TestBindUsesTheOpenedFile(t *testing.T) {
	a := newAttacked(t)
	file, err := a.openWithin(a.volume, "dir/inner")
	testcheck.NoError(t, err)
	defer file.Close()
	testcheck.NoError(t, a.swap())
	testcheck.NoError(t, unix.Mount(fmt.Sprintf("/proc/self/fd/%d", file.Fd()), a.root+"/target", "", unix.MS_BIND, ""))
	if names, err := a.ReadDir(a.root + "/target"); err != nil || !slices.Equal(names, []string{"own"}) {
		t.Errorf("bound is a directory with %v, %v", names, err)
	}
}

// TestBindWhileLinksAreSwapped binds while a pod exchanges a directory and a link. Nothing outside
// the volume may be bound.
func TestBindWhileLinksAreSwapped(t *testing.T) {
	a := newAttacked(t)
	end := a.swapAllTheTime(t)
	defer end()
	outcomes := map[string]int{}
	for i := 0; i < attempts || i < attemptsMax && len(outcomes) < 2; i++ {
		err := a.BindWithin(a.volume, "dir/inner", a.root+"/target")
		switch {
		case errors.Is(err, ErrNotWithin):
			outcomes["refused"]++
			continue
		case err != nil: // the directory became a link while it was resolved
			continue
		}
		names, err := a.ReadDir(a.root + "/target")
		if err != nil || !slices.Equal(names, []string{"own"}) {
			t.Fatalf("bound is a directory with %v, %v", names, err)
		}
		outcomes["bound"]++
		testcheck.NoError(t, unix.Unmount(a.root+"/target", 0))
	}
	if len(outcomes) < 2 {
		t.Errorf("outcomes %v: want some that are bound, and some that are not", outcomes)
	}
}

// attempts is the minimum number of races. If one side always won, the test goes on up to
// attemptsMax.
const (
	attempts    = 500
	attemptsMax = 100_000
)

// TestMkdirWhileLinksAreSwapped creates directories; none may be outside the volume.
func TestMkdirWhileLinksAreSwapped(t *testing.T) {
	a := newAttacked(t)
	end := a.swapAllTheTime(t)
	outcomes := map[bool]int{}
	for i := 0; i < attempts || i < attemptsMax && len(outcomes) < 2; i++ {
		outcomes[a.MkdirWithin(a.volume, fmt.Sprintf("dir/new/%d", i), 0o750) == nil]++
	}
	end()
	for _, at := range []string{a.outside, a.outside + "/new"} {
		if names, err := os.ReadDir(at); !errors.Is(err, fs.ErrNotExist) && (err != nil || len(names) != 1) {
			t.Errorf("in %s there are %v, %v", at, names, err)
		}
	}
	if len(outcomes) < 2 {
		t.Errorf("outcomes %v: want both successes and failures", outcomes)
	}
}

// TestBindSpecialFiles binds what is neither a directory nor a regular file, and must not block.
func TestBindSpecialFiles(t *testing.T) {
	a := newAttacked(t)
	t.Chdir(a.volume) // the path of a socket must be short
	socket, err := net.Listen("unix", "socket")
	testcheck.NoError(t, err)
	defer socket.Close()
	testcheck.NoError(t, unix.Mkfifo("fifo", 0o600))
	for _, name := range []string{"socket", "fifo"} {
		target := filepath.Join(a.root, "on-"+name)
		testcheck.NoError(t, a.WriteFile(target, nil))
		testcheck.NoError(t, a.BindWithin(a.volume, name, target))
		info, err := os.Lstat(target)
		testcheck.NoError(t, err)
		if info.Mode().IsRegular() {
			t.Errorf("%s is bound as %v", name, info.Mode())
		}
		if err := a.BindWithin(a.volume, name+"/below", target); !errors.Is(err, unix.ENOTDIR) {
			t.Errorf("bind below %s gives %v", name, err)
		}
		if err := a.MkdirWithin(a.volume, name+"/below", 0o750); !errors.Is(err, unix.ENOTDIR) {
			t.Errorf("mkdir below %s returned %v", name, err)
		}
	}
}
