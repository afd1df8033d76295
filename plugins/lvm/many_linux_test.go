package lvm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sync/errgroup"

	"github.com/volsim/volsim/internal/blockcsi/blockcsitest"
	"github.com/volsim/volsim/internal/lvm2"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/nodefs"
)

const (
	// manyEnv sets the number of volumes of TestManyVolumes.
	manyEnv     = "VOLSIM_LVM_VOLUMES"
	manyDefault = 64
	atOnce      = 16
	// manyDisk is the size of a disk with room for less than 255 volumes of 16 MiB, the maximum
	// number of partitions.
	manyDisk = 4000 << 20
)

// TestManyVolumes creates, uses and removes volumes, 16 at a time, with all of them in use in
// between. With VOLSIM_LVM_VOLUMES=1000 it takes two minutes of processor time, because each LVM
// command reads and writes the metadata of all volumes.
func TestManyVolumes(t *testing.T) {
	needLVM(t)
	count := manyDefault
	if text := os.Getenv(manyEnv); text != "" {
		var err error
		if count, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	if hasMapper() && os.Getenv(manyEnv) == "" {
		t.Skip("with device-mapper, in a slow guest, not unless " + manyEnv + " says so")
	}
	m, commands := newMany(t, count/200+1)
	ids := make([]string, count)
	for i := range ids {
		ids[i] = fmt.Sprintf("volume-%d", i)
	}
	contexts := sync.Map{}
	each := func(what string, f func(i int) error) {
		t.Helper()
		began, before := time.Now(), commands.Load()
		var group errgroup.Group
		group.SetLimit(atOnce)
		for i := range count {
			group.Go(func() error { return f(i) })
		}
		testcheck.NoError(m, group.Wait())
		took := time.Since(began)
		t.Logf("%-10s %6.1f ms each, %4.1f commands of LVM each, %v for %d", what,
			took.Seconds()*1000/float64(count), float64(commands.Load()-before)/float64(count),
			took.Round(time.Millisecond), count)
	}
	node := m.driver.Node(node, m.fs)
	each("create", func(i int) (err error) {
		ids[i], err = m.createSmall(ids[i])
		return err
	})
	each("attach", func(i int) error {
		response, err := m.driver.Controller().ControllerPublishVolume(t.Context(),
			&csi.ControllerPublishVolumeRequest{VolumeId: ids[i], NodeId: "one", VolumeCapability: asFile()})
		contexts.Store(i, response.GetPublishContext())
		return err
	})
	each("stage", func(i int) error {
		found, _ := contexts.Load(i)
		return m.stage(ids[i], found.(map[string]string))
	})
	each("write", func(i int) error {
		return blockcsitest.WriteFile(filepath.Join(m.staging(ids[i]), "data"), []byte(ids[i]))
	})
	began := time.Now()
	list, err := m.driver.Controller().ListVolumes(t.Context(), &csi.ListVolumesRequest{})
	testcheck.NoError(m, err)
	t.Logf("list       %v for all", time.Since(began).Round(time.Millisecond))
	for _, each := range list.GetEntries() {
		if len(each.GetStatus().GetPublishedNodeIds()) != 1 {
			t.Errorf("not published: %v", each)
		}
	}
	if len(list.GetEntries()) != count {
		t.Errorf("%d are listed", len(list.GetEntries()))
	}
	each("read", func(i int) error {
		text, err := blockcsitest.ReadFile(filepath.Join(m.staging(ids[i]), "data"))
		if string(text) != ids[i] {
			t.Errorf("%s holds %q", ids[i], text)
		}
		return err
	})
	each("unstage", func(i int) error {
		_, err := node.NodeUnstageVolume(t.Context(), &csi.NodeUnstageVolumeRequest{
			VolumeId: ids[i], StagingTargetPath: m.staging(ids[i]),
		})
		return err
	})
	each("detach", func(i int) error {
		_, err := m.driver.Controller().ControllerUnpublishVolume(t.Context(),
			&csi.ControllerUnpublishVolumeRequest{VolumeId: ids[i]})
		return err
	})
	each("delete", func(i int) error {
		_, err := m.driver.Controller().DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: ids[i]})
		return err
	})
	report, err := m.driver.pools[0].group.Report(t.Context())
	testcheck.NoError(m, err)
	if len(report.LogicalVolumes) > 0 || report.Free != report.Size {
		t.Errorf("remaining: %+v, free %d of %d", report.LogicalVolumes, report.Free, report.Size)
	}
}

// newMany returns a machine with enough disks, and a counter of LVM commands.
func newMany(t *testing.T, disks int) (*machine, *atomic.Int64) {
	t.Helper()
	m := &machine{TB: t, dir: plainDir(t)}
	commands := &atomic.Int64{}
	cfg := NodeConfig{Name: node, Group: groupIn(m.dir), LVM: lvm2.Config{
		Directory: filepath.Join(m.dir, "lvm"), SystemID: "volsim-test",
		OnCommand: func(_ []string, ended bool) {
			if ended {
				commands.Add(1)
			}
		},
	}}
	for i := range disks {
		cfg.Files = append(cfg.Files, File{Path: filepath.Join(m.dir, fmt.Sprintf("disk-%d", i)), SizeBytes: manyDisk})
	}
	var err error
	m.fs, err = nodefs.NewReal(filepath.Join(m.dir, "node"))
	testcheck.NoError(m, err)
	m.driver, err = New(t.Context(), Config{Nodes: []NodeConfig{cfg}})
	testcheck.NoError(m, err)
	t.Cleanup(func() {
		testcheck.NoError(m, m.fs.UnmountAll())
		testcheck.NoError(m, m.driver.Destroy(context.Background()))
	})
	return m, commands
}

func (m *machine) createSmall(name string) (string, error) {
	response, err := m.driver.Controller().CreateVolume(m.Context(), &csi.CreateVolumeRequest{
		Name: name, VolumeCapabilities: []*csi.VolumeCapability{asFile()},
		CapacityRange: &csi.CapacityRange{RequiredBytes: bytesMin},
	})
	return response.GetVolume().GetVolumeId(), err
}
