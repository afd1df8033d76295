package subpath_test

import (
	"errors"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/plugins/subpath"
)

// at returns a path below the pod's volume-subpaths.
func (n *node) at(name string) string { return path.Join(n.pod, subpath.Dir, name) }

// mount creates targets below the pod's volume-subpaths, each with a directory of the volume
// mounted there.
func (n *node) mount(names ...string) {
	n.t.Helper()
	for _, name := range names {
		n.file(n.volume + "/" + path.Base(name) + "/file")
		testcheck.NoError(n.t, n.MkdirAll(n.at(name)), n.BindMount(n.volume+"/"+path.Base(name), n.at(name), false))
	}
}

// TestClean cleans volumes with various targets.
func TestClean(t *testing.T) {
	tests := []struct {
		name    string
		prepare func(n *node)
		left    []string // below volume-subpaths, which is gone if there is nothing
		wrong   string   // a word of the error
	}{
		{"nothing", func(*node) {}, nil, ""},
		{"an empty place", func(n *node) { testcheck.NoError(n.t, n.MkdirAll(n.at("vol1/container1/0"))) }, nil, ""},
		{"an empty place that is a file", func(n *node) { n.file(n.at("vol1/container1/0")) }, nil, ""},
		{"no place at all", func(n *node) { testcheck.NoError(n.t, n.MkdirAll(n.at("vol1/container1"))) }, nil, ""},
		{
			"a file in the place of a container", func(n *node) { n.file(n.at("vol1/container1")) },
			[]string{"vol1", "vol1/container1"},
			"error deleting",
		},
		{"a file in the place of another container", func(n *node) {
			testcheck.NoError(n.t, n.MkdirAll(n.at("vol1/container1")))
			n.file(n.at("vol1/container2"))
		}, []string{"vol1", "vol1/container2"}, "error deleting"},
		{"a directory", func(n *node) { n.mount("vol1/container1/0") }, nil, ""},
		{"some of several", func(n *node) {
			n.mount("vol1/container1/0", "vol1/container2/1")
			testcheck.NoError(n.t, n.MkdirAll(n.at("vol1/container1/1")))
		}, nil, ""},
		{"one of two volumes", func(n *node) {
			n.mount("vol1/container1/0")
			testcheck.NoError(n.t, n.MkdirAll(n.at("vol2/container1/1")))
		}, []string{"vol2", "vol2/container1", "vol2/container1/1"}, ""},
		{
			"one of two volumes that are both bound", func(n *node) { n.mount("vol1/container1/0", "vol2/container1/1") },
			[]string{"vol2", "vol2/container1", "vol2/container1/1", "vol2/container1/1/file"},
			"",
		},
		{"files and directories", func(n *node) {
			n.file(n.volume + "/file0")
			n.file(n.at("vol1/container1/0"))
			testcheck.NoError(n.t, n.BindMount(n.volume+"/file0", n.at("vol1/container1/0"), false))
			n.mount("vol1/container1/1", "vol1/container1/2")
			testcheck.NoError(n.t, n.MkdirAll(n.at("vol1/container1/1")+"/my-dir-1"))
		}, nil, ""},
		{"mounts one upon the other", func(n *node) { n.mount("vol1/container1/0", "vol1/container1/0") }, nil, ""},
		{
			"a place in which something lies", func(n *node) { n.file(n.at("vol1/container1/0/mine")) },
			[]string{"vol1", "vol1/container1", "vol1/container1/0", "vol1/container1/0/mine"},
			"not empty",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			eachNode(t, func(n *node) {
				tt.prepare(n)
				kept := n.files()
				switch err := n.clean(); {
				case tt.wrong == "":
					testcheck.NoError(n.t, err)
				case err == nil || !strings.Contains(err.Error(), tt.wrong):
					n.t.Errorf("error %v, want one with %q", err, tt.wrong)
				}
				testcheck.Equal(n.t, "left", tt.left, n.left())
				testcheck.Equal(n.t, "there is a directory for parts", len(tt.left) > 0, n.hasSubpaths())
				testcheck.Equal(n.t, "files of the volume", kept, n.files())
			})
		})
	}
}

// files returns those of the volume.
func (n *node) files() []string {
	n.t.Helper()
	var all []string
	var visit func(at string)
	visit = func(at string) {
		names, err := n.ReadDir(path.Join(n.volume, at))
		if err != nil {
			all = append(all, at)
		}
		for _, name := range names {
			visit(path.Join(at, name))
		}
	}
	visit("")
	return all
}

// TestBusySubpathStays with those after it; all are removed once it is no longer in use.
func TestBusySubpathStays(t *testing.T) {
	eachNode(t, func(n *node) {
		n.mount("vol1/a/0", "vol1/b/1", "vol1/c/2")
		free := n.use(n.at("vol1/b/1"))
		if err := n.clean(); !errors.Is(err, nodefs.ErrBusy) || !strings.Contains(err.Error(), n.at("vol1/b/1")) {
			n.t.Errorf("error %v, want one that says what is busy", err)
		}
		testcheck.Equal(n.t, "mounted", []string{"vol1/b/1", "vol1/c/2"}, without(n.mounted(), "vol1/b/1/below"))
		free()
		testcheck.NoError(n.t, n.clean())
		testcheck.Equal(n.t, "there is a directory for parts", false, n.hasSubpaths())
	})
}

// use keeps a mount busy until the function that it returns is called.
func (n *node) use(at string) (free func()) {
	n.t.Helper()
	if _, real := n.FS.(*nodefs.Real); real {
		file, err := os.Open(at + "/file")
		testcheck.NoError(n.t, err)
		return func() { testcheck.NoError(n.t, file.Close()) }
	}
	testcheck.NoError(n.t, n.MkdirAll(at+"/below"), n.BindMount(n.root+"/disk", at+"/below", false))
	return func() { testcheck.NoError(n.t, n.Unmount(at+"/below"), n.Remove(at+"/below")) }
}

func without(all []string, name string) []string {
	var rest []string
	for _, s := range all {
		if s != name {
			rest = append(rest, s)
		}
	}
	return rest
}

// TestCrashBetweenSteps crashes the process before each step of binding and cleaning, and repeats
// the operation. The result is as without a crash. A node that reboots meanwhile loses its mounts,
// and nothing else.
func TestCrashBetweenSteps(t *testing.T) {
	for _, boots := range []bool{false, true} {
		eachNode(t, func(n *node) {
			disk, memory := n.FS.(*nodefs.Memory)
			if boots && !memory {
				n.t.Skip("this machine is not booted")
			}
			n.file(n.volume + "/dir0/file")
			n.file(n.volume + "/file0")
			second := n.part("file0")
			second.Index = 2
			binds := func(d subpath.Binder) error {
				return errors.Join(d.MakeDir(n.part("dir0/new"), 0o750), d.Bind(n.part("dir0/new")), d.Bind(second))
			}
			cleans := func(d subpath.Binder) error { return d.Clean(n.pod, "vol1") }
			kill := func(what string, atLeast int, do func(d subpath.Binder) error, check func()) {
				killed := 1
				for ; ; killed++ {
					ended, err := n.does(killed, do)
					testcheck.NoError(n.t, err)
					if boots && !ended {
						disk.Reset()
						testcheck.NoError(n.t, n.BindMount(n.root+"/disk", n.volume, false))
					}
					_, err = n.does(0, do)
					testcheck.NoError(n.t, err)
					check()
					if ended {
						break
					}
				}
				if killed < atLeast {
					n.t.Errorf("%s has %d steps, want %d at least", what, killed, atLeast)
				}
			}
			kill("binding", 4, binds, func() {
				testcheck.Equal(n.t, "mounted", []string{"vol1/container0/1", "vol1/container0/2"}, n.mounted())
				testcheck.NoError(n.t, n.clean())
			})
			bound := func() { testcheck.NoError(n.t, n.bind(n.part("dir0/new")), n.bind(second)) }
			bound()
			kill("cleaning", 4, cleans, func() {
				testcheck.Equal(n.t, "there is a directory for parts", false, n.hasSubpaths())
				bound()
			})
			testcheck.NoError(n.t, n.clean())
			testcheck.Equal(n.t, "files", []string{"dir0/file", "file0"}, n.files())
		})
	}
}

// TestRemoveOrphans removes empty targets, and nothing else.
func TestRemoveOrphans(t *testing.T) {
	eachNode(t, func(n *node) {
		testcheck.NoError(n.t, subpath.RemoveOrphans(n.FS, n.pod))
		testcheck.NoError(n.t, n.MkdirAll(n.at("vol1/a/0")), n.MkdirAll(n.at("vol3/b")))
		n.file(n.at("vol1/a/1"))
		testcheck.NoError(n.t, subpath.RemoveOrphans(n.FS, n.pod))
		testcheck.Equal(n.t, "left", []string{"vol1", "vol1/a", "vol3", "vol3/b"}, n.left())
		n.mount("vol2/a/0")
		n.file(n.at("vol1/a/1"))
		if err := subpath.RemoveOrphans(n.FS, n.pod); !errors.Is(err, nodefs.ErrMounted) {
			n.t.Errorf("a mount: %v", err)
		}
		testcheck.Equal(n.t, "left", []string{"vol1", "vol1/a", "vol2", "vol2/a", "vol2/a/0", "vol2/a/0/file", "vol3", "vol3/b"}, n.left())
	})
}
