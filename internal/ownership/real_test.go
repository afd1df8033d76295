package ownership_test

import (
	"io/fs"
	"os"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/internal/ownership"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/nodefs"
)

// TestApplyOnThisMachine: the kernel clears the set-group bit when the owner changes, and it must
// be set again.
func TestApplyOnThisMachine(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("giving files away needs root")
	}
	dir := t.TempDir()
	disk, err := nodefs.NewReal(dir)
	testcheck.NoError(t, err)
	volume := dir + "/volume"
	testcheck.NoError(t, disk.MkdirAll(volume+"/sub"), disk.WriteFile(volume+"/sub/file", []byte("content")),
		disk.WriteFile(volume+"/tool", nil),
		disk.Chmod(volume+"/tool", fs.ModeSetgid|0o711), disk.Chown(volume+"/sub/file", 7, 8),
		disk.WriteFile(dir+"/outside", nil), disk.Chmod(dir+"/outside", 0o600),
		disk.Symlink(dir+"/outside", volume+"/link"), disk.Symlink("nowhere", volume+"/broken"))
	var count atomic.Int64
	testcheck.NoError(t, ownership.Apply(t.Context(), disk, volume, group, false, &count))
	got := map[string]nodefs.Info{}
	for _, at := range []string{volume, volume + "/sub", volume + "/sub/file", volume + "/tool", dir + "/outside"} {
		info, err := disk.Stat(at)
		testcheck.NoError(t, err)
		got[at] = info
	}
	want := map[string]nodefs.Info{
		volume:               {Mode: fs.ModeDir | fs.ModeSetgid | 0o770, GID: 3000},
		volume + "/sub":      {Mode: fs.ModeDir | fs.ModeSetgid | 0o770, GID: 3000},
		volume + "/sub/file": {Mode: 0o660, UID: 7, GID: 3000},
		volume + "/tool":     {Mode: fs.ModeSetgid | 0o771, GID: 3000},
		dir + "/outside":     {Mode: 0o600},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	policy := corev1.FSGroupChangeOnRootMismatch
	if count.Load() != 6 || ownership.NeedsChange(disk, volume, group, &policy, false) {
		t.Errorf("%d files were counted, want 6; is it needed again?", count.Load())
	}
}
