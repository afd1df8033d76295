package ownership_test

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/internal/ownership"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/nodefs"
)

const (
	root  = "/var/lib/kubelet"
	dir   = root + "/pods/uid-1/volumes/kubernetes.io~csi/pv/mount"
	group = int64(3000)
)

// disk is a node's disk with a volume's directory.
func disk(t interface{ Fatal(args ...any) }) *nodefs.Memory {
	m := nodefs.NewMemory(root)
	if err := m.MkdirAll(dir); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestNeedsChange(t *testing.T) {
	t.Parallel()
	always, onMismatch := corev1.FSGroupChangeAlways, corev1.FSGroupChangeOnRootMismatch
	const setgid = fs.ModeSetgid
	tests := []struct {
		name     string
		policy   *corev1.PodFSGroupChangePolicy
		gid      int
		mode     fs.FileMode
		readOnly bool
		want     bool
	}{
		{"no policy", nil, 0, 0o750, false, true},
		{"always", &always, 0, 0o750, false, true},
		{"always, the group's", &always, 3000, 0o770 | setgid, false, true},
		{"no policy, the group's", nil, 3000, 0o770 | setgid, false, true},
		{"on mismatch, another group's", &onMismatch, 0, 0o770 | setgid, false, true},
		{"on mismatch, the group may not enter", &onMismatch, 3000, 0o660 | setgid, false, true},
		{"on mismatch, the group may not write", &onMismatch, 3000, 0o750 | setgid, false, true},
		{"on mismatch, files made there are not the group's", &onMismatch, 3000, 0o770, false, true},
		{"on mismatch, all right", &onMismatch, 3000, 0o770 | setgid, false, false},
		{"on mismatch, more is permitted", &onMismatch, 3000, 0o777 | setgid, false, false},
		{"on mismatch, read-only: reading is enough", &onMismatch, 3000, 0o550 | setgid, true, false},
		{"on mismatch, read-only: the group may not read", &onMismatch, 3000, 0o710 | setgid, true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := disk(t)
			testcheck.NoError(t, m.Chown(dir, -1, tt.gid), m.Chmod(dir, tt.mode))
			if got := ownership.NeedsChange(m, dir, group, tt.policy, tt.readOnly); got != tt.want {
				t.Errorf("NeedsChange is %v, want %v", got, tt.want)
			}
		})
	}
	t.Run("on mismatch, no directory", func(t *testing.T) {
		t.Parallel()
		m := disk(t)
		testcheck.NoError(t, m.WriteFile(dir+"/file", nil), m.Chown(dir+"/file", -1, 3000))
		for _, at := range []string{dir + "/file", dir + "/missing"} {
			if !ownership.NeedsChange(m, at, group, &onMismatch, false) {
				t.Errorf("%s: not needed", at)
			}
		}
	})
}

func TestApply(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name           string
		readOnly       bool
		dir, file, exe fs.FileMode
	}{
		{"to write", false, fs.ModeDir | fs.ModeSetgid | 0o770, 0o660, 0o771},
		{"to read", true, fs.ModeDir | fs.ModeSetgid | 0o750, 0o640, 0o751},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := disk(t)
			testcheck.NoError(t, m.MkdirAll(dir+"/sub"), m.WriteFile(dir+"/sub/file", []byte("content")), m.WriteFile(dir+"/tool", nil),
				m.Chown(dir+"/tool", 7, 8), m.Chmod(dir+"/tool", 0o711),
				m.WriteFile(root+"/outside", nil), m.Chmod(root+"/outside", 0o600),
				m.Symlink(root+"/outside", dir+"/link"), m.Symlink("nowhere", dir+"/broken"))
			var count atomic.Int64
			testcheck.NoError(t, ownership.Apply(t.Context(), m, dir, group, tt.readOnly, &count))
			got := map[string]nodefs.Info{}
			for _, at := range []string{dir, dir + "/sub", dir + "/sub/file", dir + "/tool", root + "/outside"} {
				info, err := m.Stat(at)
				testcheck.NoError(t, err)
				got[at] = info
			}
			want := map[string]nodefs.Info{
				dir:               {Mode: tt.dir, GID: 3000},
				dir + "/sub":      {Mode: tt.dir, GID: 3000},
				dir + "/sub/file": {Mode: tt.file, GID: 3000},
				dir + "/tool":     {Mode: tt.exe, UID: 7, GID: 3000},
				root + "/outside": {Mode: 0o600},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if link, err := m.Stat(dir + "/link"); err != nil || link.GID != 3000 {
				t.Errorf("the link is of group %d (%v): it is not given", link.GID, err)
			}
			if count.Load() != 6 {
				t.Errorf("%d files were counted, want 6", count.Load())
			}
		})
	}
}

// TestApplyStopsAtUnreadableDirectory before it changes the root: the next call finds the change
// incomplete.
func TestApplyStopsAtUnreadableDirectory(t *testing.T) {
	t.Parallel()
	m := disk(t)
	testcheck.NoError(t, m.MkdirAll(dir+"/a"), m.MkdirAll(dir+"/b"), m.MkdirAll(dir+"/c"))
	var count atomic.Int64
	err := ownership.Apply(t.Context(), unreadable{m, dir + "/b"}, dir, group, false, &count)
	if !errors.Is(err, errBroken) {
		t.Errorf("%v, want %v", err, errBroken)
	}
	given := map[string]bool{}
	for _, at := range []string{dir, dir + "/a", dir + "/b", dir + "/c"} {
		info, err := m.Stat(at)
		testcheck.NoError(t, err)
		given[path.Base(at)] = info.GID == 3000
	}
	if diff := cmp.Diff(map[string]bool{"mount": false, "a": true, "b": false, "c": false}, given); diff != "" {
		t.Errorf("given (-want +got):\n%s", diff)
	}
}

// TestApplyContinuesAfterRefusal, as on a file server that does not allow changes of owner.
func TestApplyContinuesAfterRefusal(t *testing.T) {
	t.Parallel()
	m := disk(t)
	testcheck.NoError(t, m.WriteFile(dir+"/file", nil))
	var count atomic.Int64
	testcheck.NoError(t, ownership.Apply(t.Context(), refusing{m}, dir, group, false, &count))
	info, err := m.Stat(dir + "/file")
	testcheck.NoError(t, err)
	if info.GID != 0 || info.Mode != 0o640 || count.Load() != 2 {
		t.Errorf("%+v, %d files: want all as it was, and 2 reached", info, count.Load())
	}
}

var errBroken = errors.New("broken")

// unreadable is a disk with a directory that cannot be read.
type unreadable struct {
	*nodefs.Memory
	at string
}

func (u unreadable) ReadDir(name string) ([]string, error) {
	if name == u.at {
		return nil, errBroken
	}
	return u.Memory.ReadDir(name)
}

// refusing is a disk that rejects changes of owners and permissions.
type refusing struct{ *nodefs.Memory }

func (refusing) Chown(string, int, int) error    { return fs.ErrPermission }
func (refusing) Chmod(string, fs.FileMode) error { return fs.ErrPermission }

// TestApplySatisfiesNeedsChange: for any tree, the group then has all of it, no permission is lost,
// and a policy that checks the root finds nothing left to do.
func TestApplySatisfiesNeedsChange(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := disk(t)
		before := map[string]nodefs.Info{}
		note := func(at string) {
			mode := fs.FileMode(rapid.IntRange(0, 0o777).Draw(t, "mode"))
			testcheck.NoError(t, m.Chmod(at, mode), m.Chown(at, rapid.IntRange(0, 2).Draw(t, "uid"), rapid.IntRange(0, 2).Draw(t, "gid")))
			info, err := m.Stat(at)
			testcheck.NoError(t, err)
			before[at] = info
		}
		dirs := []string{dir}
		for i := range rapid.IntRange(0, 8).Draw(t, "size") {
			at := path.Join(rapid.SampledFrom(dirs).Draw(t, "in"), fmt.Sprint(i))
			if rapid.Bool().Draw(t, "file") {
				testcheck.NoError(t, m.WriteFile(at, []byte("content")))
			} else {
				testcheck.NoError(t, m.MkdirAll(at))
				dirs = append(dirs, at)
			}
			note(at)
		}
		note(dir)
		var count atomic.Int64
		testcheck.NoError(t, ownership.Apply(t.Context(), m, dir, group, false, &count))
		if int(count.Load()) != len(before) {
			t.Errorf("%d of %d were reached", count.Load(), len(before))
		}
		for at, was := range before {
			is, err := m.Stat(at)
			testcheck.NoError(t, err)
			if int64(is.GID) != group || is.UID != was.UID || is.Mode&was.Mode != was.Mode || is.Mode&0o660 != 0o660 {
				t.Errorf("%s: %+v, and before %+v", at, is, was)
			}
		}
		policy := corev1.FSGroupChangeOnRootMismatch
		if ownership.NeedsChange(m, dir, group, &policy, false) {
			t.Error("it is needed again")
		}
	})
}
