package nodefs_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/volsim/volsim/internal/loopdev"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/nodefs"
)

const diskBytes = 16 << 20

// diskNodes returns nodes that have a device of diskBytes at root/dev/disk, and a function that makes
// it larger.
func diskNodes(t *testing.T) map[string]func(t *testing.T) (node nodefs.FS, root string, resize func(size int64)) {
	t.Helper()
	return map[string]func(t *testing.T) (nodefs.FS, string, func(int64)){
		"memory": func(t *testing.T) (nodefs.FS, string, func(int64)) {
			node := nodefs.NewMemory("/n")
			testcheck.NoError(t, node.MkdirAll("/n/dev"))
			testcheck.NoError(t, node.WriteFile("/n/dev/disk", nil))
			node.SetDeviceSize("disk", diskBytes)
			testcheck.NoError(t, node.MountDevice("disk", "/n/dev/disk", false))
			return node, "/n", func(size int64) { node.SetDeviceSize("disk", size) }
		},
		"real": func(t *testing.T) (nodefs.FS, string, func(int64)) {
			node, root := newReal(t)
			image := filepath.Join(t.TempDir(), "image")
			testcheck.NoError(t, os.WriteFile(image, nil, 0o600))
			testcheck.NoError(t, os.Truncate(image, diskBytes))
			device, err := loopdev.Bind(t.Context(), image, "volsim:test", false)
			if errors.Is(err, loopdev.ErrNone) {
				t.Skip("needs loop devices")
			}
			testcheck.NoError(t, err)
			t.Cleanup(func() {
				bound, err := loopdev.At(device)
				testcheck.NoError(t, node.UnmountAll(), err, loopdev.Unbind(context.Background(), bound))
			})
			testcheck.NoError(t, node.MkdirAll(root+"/dev"))
			testcheck.NoError(t, node.WriteFile(root+"/dev/disk", nil))
			testcheck.NoError(t, node.BindDevice(device, root+"/dev/disk", false))
			return node, root, func(size int64) {
				bound, err := loopdev.At(device)
				testcheck.NoError(t, err, os.Truncate(image, size), loopdev.Grow(bound))
			}
		},
	}
}

// TestFileSystemOfADevice formats a device once, keeps its files, and wipes it.
func TestFileSystemOfADevice(t *testing.T) {
	for name, open := range diskNodes(t) {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			node, root, resize := open(t)
			device, dirs := root+"/dev/disk", directories(t, node, root, "a", "b")
			testcheck.NoError(t, node.WriteFile(root+"/file", nil), node.WriteFile(root+"/other", nil))
			capacity := func(path string, least, most int64) {
				t.Helper()
				if size, err := node.Capacity(path); err != nil || size < least || size > most {
					t.Errorf("Capacity(%s) = %d, %v, want %d to %d", path, size, err, least, most)
				}
			}
			capacity(device, diskBytes, diskBytes)
			if node.FormatAndMount(ctx, device, dirs[0], "ext4", []string{"ro"}) == nil {
				t.Error("an empty device was formatted for a read-only mount")
			}
			for _, wrong := range []string{root + "/file", root + "/missing", root} {
				if node.FormatAndMount(ctx, wrong, dirs[0], "ext4", nil) == nil {
					t.Errorf("%s, which is no device, was mounted", wrong)
				}
				if node.Wipe(ctx, wrong) == nil {
					t.Errorf("%s, which is no device, was wiped", wrong)
				}
			}
			_, err := node.Capacity(root + "/missing")
			wantError(t, err, fs.ErrNotExist)

			testcheck.NoError(t, node.FormatAndMount(ctx, device, dirs[0], "", nil))
			testcheck.NoError(t, node.WriteFile(dirs[0]+"/data", []byte("kept")))
			capacity(dirs[0], diskBytes/2, diskBytes)
			if info, err := node.Stat(dirs[0]); err != nil || info.Mode != fs.ModeDir|0o755 {
				t.Errorf("mode of the top: %v, %v, want 755", info.Mode, err)
			}
			mounts, err := node.Mounts()
			testcheck.NoError(t, err)
			if mounts[0].Path != dirs[0] || mounts[0].Source != device || mounts[0].FSType != "ext4" {
				t.Errorf("mounted: %+v", mounts[0])
			}
			wantError(t, node.Wipe(ctx, device), nodefs.ErrBusy)
			resize(2 * diskBytes)
			if err := node.Grow(ctx, device, dirs[0]); errors.Is(err, nodefs.ErrGrowMounted) {
				t.Logf("not grown: %v", err)
			} else {
				testcheck.NoError(t, err)
				capacity(dirs[0], diskBytes+diskBytes/2, 2*diskBytes)
			}
			testcheck.NoError(t, node.Unmount(dirs[0]))
			if node.FormatAndMount(ctx, device, dirs[1], "xfs", nil) == nil {
				t.Error("a device with ext4 was mounted as xfs")
			}
			testcheck.NoError(t, node.FormatAndMount(ctx, device, dirs[1], "ext4", []string{"ro"}))
			wantContent(t, node, dirs[1]+"/data", "kept")
			wantError(t, node.WriteFile(dirs[1]+"/data", nil), nodefs.ErrReadOnly)
			testcheck.NoError(t, node.Unmount(dirs[1]))

			testcheck.NoError(t, node.BindMount(device, root+"/other", false))
			wantError(t, node.Wipe(ctx, device), nodefs.ErrBusy)
			testcheck.NoError(t, node.Unmount(root+"/other"), node.Wipe(ctx, device))
			testcheck.NoError(t, node.FormatAndMount(ctx, device, dirs[0], "ext4", nil))
			_, err = node.ReadFile(dirs[0] + "/data")
			wantError(t, err, fs.ErrNotExist)
			testcheck.NoError(t, node.Unmount(dirs[0]))
		})
	}
}

func TestDeviceInMemorySurvivesAReboot(t *testing.T) {
	node := nodefs.NewMemory("/")
	testcheck.NoError(t, node.MkdirAll("/a"), node.WriteFile("/disk", nil), node.MountDevice("d", "/disk", false))
	testcheck.NoError(t, node.FormatAndMount(t.Context(), "/disk", "/a", "ext4", nil), node.WriteFile("/a/data", []byte("kept")))
	node.Reset()
	wantError(t, node.FormatAndMount(t.Context(), "/disk", "/a", "ext4", nil), syscall.ENOTBLK)
	testcheck.NoError(t, node.MountDevice("d", "/disk", false), node.FormatAndMount(t.Context(), "/disk", "/a", "ext4", nil))
	wantContent(t, node, "/a/data", "kept")
	if size, err := node.Capacity("/"); err != nil || size <= 0 {
		t.Errorf("capacity of the node's disk: %d, %v", size, err)
	}
}
