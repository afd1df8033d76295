package subpath_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"runtime"
	"testing"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/plugins/subpath"
	"github.com/volsim/volsim/sim"
)

// node is a node with a volume mounted for a pod.
type node struct {
	nodefs.FS
	t      *testing.T
	root   string
	pod    string // the pod's directory
	volume string // where the volume is mounted
}

// eachNode calls test with a node in memory, and with a real one.
func eachNode(t *testing.T, test func(n *node)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { test(newNode(t, nodefs.NewMemory("/node"), "/node")) })
	t.Run("real", func(t *testing.T) {
		if runtime.GOOS != "linux" || os.Geteuid() != 0 {
			t.Skip("real mounts need root on Linux")
		}
		root := t.TempDir()
		disk, err := nodefs.NewReal(root)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := disk.UnmountAll(); err != nil {
				t.Error(err)
			}
		})
		test(newNode(t, disk, root))
	})
}

func newNode(t *testing.T, disk nodefs.FS, root string) *node {
	t.Helper()
	n := &node{disk, t, root, root + "/pods/uid", root + "/pods/uid/volumes/vol1/mount"}
	testcheck.NoError(n.t, n.MkdirAll(root+"/disk"), n.MkdirAll(n.volume), n.BindMount(root+"/disk", n.volume, false))
	return n
}

// part is the subpath of the volume that most tests use.
func (n *node) part(inner string) subpath.Subpath {
	return subpath.Subpath{
		PodDir: n.pod, Volume: "vol1", VolumePath: n.volume, Container: "container0", Index: 1,
		Path: inner,
	}
}

// file creates a file and its parent directories.
func (n *node) file(name string) {
	n.t.Helper()
	testcheck.NoError(n.t, n.MkdirAll(path.Dir(name)), n.WriteFile(name, []byte(path.Base(name))))
}

// does runs do in a process; if killed is not 0, the process crashes before that step. It returns
// whether do returned.
func (n *node) does(killed int, do func(d subpath.Binder) error) (ended bool, err error) {
	n.t.Helper()
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	c := host.Process("kubelet")
	c.Spawn("work", func(context.Context) {
		err = do(subpath.Binder{Process: c, FS: n.FS})
		ended = true
	})
	for step := 1; ; step++ {
		if step == killed {
			host.Crash(c)
		}
		if !host.Step() {
			return ended, err
		}
	}
}

func (n *node) bind(s subpath.Subpath) error {
	_, err := n.does(0, func(d subpath.Binder) error { return d.Bind(s) })
	return err
}

func (n *node) clean() error {
	_, err := n.does(0, func(d subpath.Binder) error { return d.Clean(n.pod, "vol1") })
	return err
}

// mounted are the paths at which something is mounted below the pod's volume-subpaths, seen from
// there.
func (n *node) mounted() []string {
	n.t.Helper()
	mounts, err := n.Mounts()
	testcheck.NoError(n.t, err)
	var at []string
	for _, m := range mounts {
		if rest, ok := cutDir(m.Path, n.pod+"/"+subpath.Dir); ok {
			at = append(at, rest)
		}
	}
	return at
}

func cutDir(name, dir string) (string, bool) {
	if len(name) <= len(dir) || name[:len(dir)+1] != dir+"/" {
		return "", false
	}
	return name[len(dir)+1:], true
}

// left are the files and directories below the pod's volume-subpaths, seen from there; nil where
// there is no such directory.
func (n *node) left() []string {
	n.t.Helper()
	var all []string
	var visit func(at string)
	visit = func(at string) {
		names, err := n.ReadDir(path.Join(n.pod, subpath.Dir, at))
		if err != nil {
			return // it is none
		}
		for _, name := range names {
			all = append(all, path.Join(at, name))
			visit(path.Join(at, name))
		}
	}
	visit("")
	return all
}

// hasSubpaths reports whether the pod has a directory for subpaths.
func (n *node) hasSubpaths() bool {
	n.t.Helper()
	_, err := n.Stat(n.pod + "/" + subpath.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		n.t.Fatal(err)
	}
	return err == nil
}
