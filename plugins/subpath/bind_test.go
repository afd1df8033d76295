package subpath_test

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"testing"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/plugins/subpath"
)

// TestBind binds parts of a volume with contents. A failure leaves nothing behind.
func TestBind(t *testing.T) {
	tests := []struct {
		name    string
		prepare func(n *node)
		inner   string
		want    string // a file that is there then, "." for the target itself; "": it fails
	}{
		{"a directory", func(n *node) { n.file(n.volume + "/dir0/file") }, "dir0", "file"},
		{"a file", func(n *node) { n.file(n.volume + "/file0") }, "file0", "."},
		{"a link to a directory", func(n *node) {
			n.file(n.volume + "/dir0/file")
			testcheck.NoError(n.t, n.Symlink(n.volume+"/dir0", n.volume+"/dirLink"))
		}, "dirLink", "file"},
		{"nothing", func(*node) {}, "file0", ""},
		{"a link out of the volume", func(n *node) { testcheck.NoError(n.t, n.Symlink(n.root, n.volume+"/dir0")) }, "dir0", ""},
		{"a link out of the volume in a directory", func(n *node) {
			n.file(n.volume + "/dir0/file")
			testcheck.NoError(n.t, n.Symlink(n.root, n.volume+"/dir0/child0"))
		}, "dir0/child0", ""},
		{"something outside behind a link", func(n *node) {
			n.file(n.root + "/child0")
			testcheck.NoError(n.t, n.Symlink(n.root, n.volume+"/dir0"))
		}, "dir0/child0", ""},
		{"nothing outside behind a link", func(n *node) { testcheck.NoError(n.t, n.Symlink(n.root, n.volume+"/dir0")) }, "dir0/child0", ""},
		{"something outside behind a link in the middle", func(n *node) {
			n.file(n.root + "/child0")
			n.file(n.volume + "/dir0/file")
			testcheck.NoError(n.t, n.Symlink(n.root, n.volume+"/dir0/linkDir0"))
		}, "dir0/linkDir0/child0", ""},
		{"a link to the directory above", func(n *node) { testcheck.NoError(n.t, n.Symlink("..", n.volume+"/dir0")) }, "dir0", ""},
		{"a directory, whose place is there", func(n *node) {
			n.file(n.volume + "/dir0/file")
			testcheck.NoError(n.t, n.MkdirAll(n.part("").Target()))
		}, "dir0", "file"},
		{"a directory, whose place is a file", func(n *node) {
			n.file(n.volume + "/dir0/file")
			n.file(n.part("").Target())
		}, "dir0", "file"},
		{"a file, whose place is a directory", func(n *node) {
			n.file(n.volume + "/file0")
			testcheck.NoError(n.t, n.MkdirAll(n.part("").Target()))
		}, "file0", "."},
		{"what is bound already", func(n *node) {
			n.file(n.volume + "/dir0/file")
			testcheck.NoError(n.t, n.bind(n.part("dir0")))
		}, "dir0", "file"},
		{"a file that is bound already", func(n *node) {
			n.file(n.volume + "/file0")
			testcheck.NoError(n.t, n.bind(n.part("file0")))
		}, "file0", "."},
		{"a directory in the place of another one", func(n *node) {
			n.file(n.volume + "/dir0/file")
			n.file(n.volume + "/other/else")
			testcheck.NoError(n.t, n.bind(n.part("other")))
		}, "dir0", "file"},
		{"a file in the place of directories, one upon the other", func(n *node) {
			n.file(n.volume + "/file0")
			n.file(n.volume + "/other/else")
			testcheck.NoError(n.t, n.bind(n.part("other")), n.BindMount(n.root, n.part("").Target(), false))
		}, "file0", "."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			eachNode(t, func(n *node) {
				tt.prepare(n)
				err := n.bind(n.part(tt.inner))
				if tt.want == "" {
					if err == nil {
						n.t.Error("it succeeds")
					}
					testcheck.Equal(n.t, "mounted", []string{}, n.mounted())
					testcheck.Equal(n.t, "there is a directory for parts", false, n.hasSubpaths())
					return
				}
				testcheck.NoError(n.t, err)
				testcheck.Equal(n.t, "mounted", []string{"vol1/container0/1"}, n.mounted())
				if there, err := n.Exists(path.Join(n.part("").Target(), tt.want)); !there || err != nil {
					n.t.Errorf("%s exists: %v, %v", tt.want, there, err)
				}
				testcheck.NoError(n.t, n.clean())
				testcheck.Equal(n.t, "there is a directory for parts", false, n.hasSubpaths())
			})
		})
	}
}

// TestBindFails leaves neither its target nor its directories; what was bound before stays.
func TestBindFails(t *testing.T) {
	eachNode(t, func(n *node) {
		n.file(n.volume + "/dir0/file")
		testcheck.NoError(n.t, n.bind(n.part("dir0")))
		broken := errors.New("no more mounts")
		n.FS = refusing{n.FS, broken}
		other := n.part("dir0")
		other.Index = 2
		if err := n.bind(other); !errors.Is(err, broken) {
			n.t.Errorf("bind returns %v", err)
		}
		testcheck.Equal(n.t, "left", []string{"vol1", "vol1/container0", "vol1/container0/1", "vol1/container0/1/file"}, n.left())
		if err := n.bind(n.part("dir0")); !errors.Is(err, broken) {
			n.t.Errorf("second bind returns %v", err)
		}
		testcheck.Equal(n.t, "mounted", []string{"vol1/container0/1"}, n.mounted())
		other.Volume = "vol2"
		if err := n.bind(other); !errors.Is(err, broken) {
			n.t.Errorf("bind of the first of a volume returns %v", err)
		}
		if slices.Contains(n.left(), "vol2") {
			n.t.Error("a directory of the other volume is left")
		}
	})
}

// refusing is a disk that rejects binds.
type refusing struct {
	nodefs.FS
	err error
}

func (r refusing) BindWithin(string, string, string) error { return r.err }

// TestMakeDir creates directories with the given permissions, and none outside.
func TestMakeDir(t *testing.T) {
	eachNode(t, func(n *node) {
		make := func(inner string) error {
			_, err := n.does(0, func(d subpath.Binder) error { return d.MakeDir(n.part(inner), fs.ModeSetgid|0o770) })
			return err
		}
		missing := func(inner string) bool { return subpath.Binder{FS: n.FS}.Missing(n.part(inner)) }
		testcheck.Equal(n.t, "missing before", true, missing("a/b"))
		testcheck.NoError(n.t, make("a/b"))
		testcheck.Equal(n.t, "missing after", false, missing("a/b"))
		info, err := n.Stat(n.volume + "/a")
		testcheck.NoError(n.t, err)
		testcheck.Equal(n.t, "mode", fs.ModeDir|fs.ModeSetgid|0o770, info.Mode)
		testcheck.NoError(n.t, n.Symlink(n.root, n.volume+"/out"))
		testcheck.Equal(n.t, "missing outside", false, missing("out"))
		if err := make("out/new"); !errors.Is(err, nodefs.ErrNotWithin) {
			n.t.Errorf("outside: %v", err)
		}
	})
}
