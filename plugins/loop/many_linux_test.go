package loop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/volsim/volsim/internal/blockcsi"
	"github.com/volsim/volsim/internal/blockcsi/blockcsitest"
	"github.com/volsim/volsim/internal/loopdev"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/nodefs"
)

const (
	manyVolumes = 1000
	manyAtOnce  = 16
)

// TestThousandVolumes creates, uses and removes a thousand volumes, sixteen at a time.
func TestThousandVolumes(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	needDevices(t)
	base := quickDir(t)
	d, err := New(Config{Dir: filepath.Join(base, "images")})
	testcheck.NoError(t, err)
	fs, err := nodefs.NewReal(filepath.Join(base, "node"))
	testcheck.NoError(t, err)
	l := &life{Driver: d, node: d.Node("one", fs), root: filepath.Join(base, "node")}
	t.Cleanup(func() {
		if err := errors.Join(fs.UnmountAll(), d.Close()); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	numbers, failed := make(chan int), make(chan error, manyVolumes)
	var group sync.WaitGroup
	for range manyAtOnce {
		group.Go(func() {
			for number := range numbers {
				if err := l.live(t.Context(), fmt.Sprint("volume ", number)); err != nil {
					failed <- fmt.Errorf("volume %d: %w", number, err)
				}
			}
		})
	}
	for number := range manyVolumes {
		numbers <- number
	}
	close(numbers)
	group.Wait()
	close(failed)
	for err := range failed {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Join(base, "images")); err != nil || len(left) > 0 {
		t.Errorf("remaining in Dir: %v (%v)", left, err)
	}
	if left, err := loopdev.List(func(backing string) bool { return strings.HasPrefix(backing, base) }); err != nil ||
		len(left) > 0 {
		t.Errorf("still bound: %v (%v)", left, err)
	}
	if left, err := fs.Mounts(); err != nil || len(left) > 0 {
		t.Errorf("still mounted: %v (%v)", left, err)
	}
	if len(d.pool.nodes) != 1 || len(d.pool.devices) > 0 || d.pool.reserved != 0 {
		t.Errorf("the pool remembers %v and %v, and has promised %d bytes", d.pool.nodes, d.pool.devices,
			d.pool.reserved)
	}
}

// life is the sequence of calls for one volume.
type life struct {
	*Driver
	node csi.NodeServer
	root string
}

func (l *life) live(ctx context.Context, name string) error {
	id, err := l.create(ctx, name)
	if err != nil {
		return err
	}
	device, err := l.attach(ctx, id)
	if err != nil {
		return err
	}
	if err := l.stage(ctx, id, device); err != nil {
		return err
	}
	if err := writeAndRead(l.staging(id)+"/file", name); err != nil {
		return err
	}
	return errors.Join(l.unstage(ctx, id), l.detach(ctx, id), l.delete(ctx, id))
}

func writeAndRead(file, text string) error {
	if err := blockcsitest.WriteFile(file, []byte(text)); err != nil {
		return err
	}
	if read, err := blockcsitest.ReadFile(file); err != nil || string(read) != text {
		return fmt.Errorf("read %q (%w)", read, err)
	}
	return nil
}

func (l *life) staging(id string) string { return filepath.Join(l.root, "staging", id) }

func (l *life) create(ctx context.Context, name string) (string, error) {
	response, err := l.Controller().CreateVolume(ctx, &csi.CreateVolumeRequest{
		Name: name, VolumeCapabilities: []*csi.VolumeCapability{writer},
		CapacityRange: &csi.CapacityRange{RequiredBytes: bytesMin},
	})
	return response.GetVolume().GetVolumeId(), err
}

func (l *life) attach(ctx context.Context, id string) (string, error) {
	response, err := l.Controller().ControllerPublishVolume(ctx,
		&csi.ControllerPublishVolumeRequest{VolumeId: id, NodeId: "one", VolumeCapability: writer})
	return response.GetPublishContext()[blockcsi.DeviceKey], err
}

func (l *life) stage(ctx context.Context, id, device string) error {
	_, err := l.node.NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{
		VolumeId: id, StagingTargetPath: l.staging(id), VolumeCapability: writer,
		PublishContext: map[string]string{blockcsi.DeviceKey: device},
	})
	return err
}

func (l *life) unstage(ctx context.Context, id string) error {
	_, err := l.node.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{
		VolumeId: id, StagingTargetPath: l.staging(id),
	})
	return err
}

func (l *life) detach(ctx context.Context, id string) error {
	_, err := l.Controller().ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{
		VolumeId: id, NodeId: "one",
	})
	return err
}

func (l *life) delete(ctx context.Context, id string) error {
	_, err := l.Controller().DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: id})
	return err
}

func (l *life) snapshot(ctx context.Context, name, source string) (string, error) {
	response, err := l.Controller().CreateSnapshot(ctx, &csi.CreateSnapshotRequest{Name: name, SourceVolumeId: source})
	return response.GetSnapshot().GetSnapshotId(), err
}

func (l *life) deleteSnapshot(ctx context.Context, id string) error {
	_, err := l.Controller().DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: id})
	return err
}
