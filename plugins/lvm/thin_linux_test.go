package lvm

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/volsim/volsim/internal/lvm2"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/nodefs"
)

// A pool with an overcommit of two provisions that much and no more. When it is full, writes fail
// and all its volumes report it.
func TestFullThinPool(t *testing.T) {
	needLVM(t)
	if !hasMapper() {
		t.Skip("no device-mapper on this machine")
	}
	m := &machine{TB: t, dir: plainDir(t)}
	fs, err := nodefs.NewReal(filepath.Join(m.dir, "node"))
	testcheck.NoError(m, err)
	m.fs = fs
	m.driver, err = New(t.Context(), Config{Nodes: []NodeConfig{{
		Name: node, Group: groupIn(m.dir), LVM: lvm2.Config{
			Directory: filepath.Join(m.dir, "lvm"), SystemID: "volsim-test",
		},
		Files: []File{{Path: filepath.Join(m.dir, "disk"), SizeBytes: 256 << 20}},
		Thin:  Thin{PoolBytes: 64 << 20, OvercommitRatio: 2},
	}}})
	testcheck.NoError(m, err)
	t.Cleanup(func() {
		testcheck.NoError(m, fs.UnmountAll())
		testcheck.NoError(m, m.driver.Destroy(context.Background()))
	})
	thin := map[string]string{layoutKey: "thin"}
	first, err := m.create("first", thin)
	testcheck.NoError(m, err)
	_, err = m.create("second", thin)
	testcheck.NoError(m, err)
	_, err = m.create("third", thin)
	wantStatus(t, err, codes.ResourceExhausted, "provision")

	pool := m.driver.pools[0]
	volume, err := pool.Volume(t.Context(), first)
	testcheck.NoError(m, err)
	attached, err := pool.Attach(t.Context(), volume, node, false)
	testcheck.NoError(m, err)
	testcheck.NoError(m, pool.Extend(t.Context(), volume, volume.SizeBytes)) // nothing to provision
	wantStatus(t, pool.Extend(t.Context(), volume, 2*volume.SizeBytes), codes.ResourceExhausted, "provision")
	device, err := os.OpenFile(attached.Device, os.O_WRONLY|os.O_SYNC, 0)
	testcheck.NoError(m, err)
	// The pool's metadata is separate from its data, so 64 MiB fit.
	content := make([]byte, 1<<20)
	for i := range content {
		content[i] = 1
	}
	for at := range int64(64) {
		_, err := device.WriteAt(content, at<<20)
		testcheck.NoError(m, err)
	}
	testcheck.NoError(m, device.Close())
	if volume, err = pool.Volume(t.Context(), first); err != nil || volume.Trouble == "" {
		t.Errorf("the pool is full, and of a volume is said %q, %v", volume.Trouble, err)
	}
	room, err := pool.Capacity(t.Context(), thin)
	testcheck.NoError(m, err)
	if room.FreeBytes != 0 {
		t.Errorf("a full pool has room for %+v", room)
	}
	_, err = pool.reserveThin(t.Context(), "vol-other", 1)
	wantStatus(t, err, codes.ResourceExhausted, "provision")
}
