//go:build linux

package loop

import (
	"bytes"
	"os"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/blockcsi"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/nodefs"
)

var blockWriter = &csi.VolumeCapability{
	AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}},
	AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
}

// TestBlockVolumeIsTheDevice writes through the published node and reads the image. Unstaging
// changes nothing.
func TestBlockVolumeIsTheDevice(t *testing.T) {
	d, node, root := newDriver(t, t.TempDir())
	id := create(t, d, "block")
	publishContext := map[string]string{blockcsi.DeviceKey: mustAttach(t, d, id)}
	staging, target := root+"/staging", root+"/target"
	written := bytes.Repeat([]byte("raw"), 4096)[:4096]
	for range 2 {
		_, err := node.NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{
			VolumeId: id, StagingTargetPath: staging, VolumeCapability: blockWriter, PublishContext: publishContext,
		})
		testcheck.NoError(t, err)
		_, err = node.NodePublishVolume(t.Context(), &csi.NodePublishVolumeRequest{
			VolumeId: id, StagingTargetPath: staging, TargetPath: target, VolumeCapability: blockWriter,
		})
		testcheck.NoError(t, err)
	}
	file, err := os.OpenFile(target, os.O_WRONLY|os.O_SYNC, 0)
	testcheck.NoError(t, err)
	_, err = file.WriteAt(written, 8192)
	testcheck.NoError(t, err)
	testcheck.NoError(t, file.Close())
	stats, err := node.NodeGetVolumeStats(t.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: target})
	testcheck.NoError(t, err)
	image, err := os.ReadFile(d.pool.image(id))
	testcheck.NoError(t, err)
	if got := stats.GetUsage(); len(got) != 1 || got[0].GetTotal() != int64(len(image)) {
		t.Errorf("usage %v of a device of %d bytes", got, len(image))
	}
	for range 2 {
		_, err = node.NodeUnpublishVolume(t.Context(), &csi.NodeUnpublishVolumeRequest{
			VolumeId: id, TargetPath: target,
		})
		testcheck.NoError(t, err)
		_, err = node.NodeUnstageVolume(t.Context(), &csi.NodeUnstageVolumeRequest{
			VolumeId: id, StagingTargetPath: staging,
		})
		testcheck.NoError(t, err)
	}
	testcheck.NoError(t, detach(t.Context(), d, id))
	image, err = os.ReadFile(d.pool.image(id))
	testcheck.NoError(t, err)
	if !bytes.Equal(image[8192:8192+4096], written) || bytes.Count(image, []byte{0}) != len(image)-4096 {
		t.Error("the image differs from what was written to the device")
	}
}

// TestLockedDeviceIsNotDetached tests the kubelet's lock.
func TestLockedDeviceIsNotDetached(t *testing.T) {
	d, node, root := newDriver(t, t.TempDir())
	id := create(t, d, "block")
	_, err := node.NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{
		VolumeId: id, StagingTargetPath: root + "/staging", VolumeCapability: blockWriter,
		PublishContext: map[string]string{blockcsi.DeviceKey: mustAttach(t, d, id)},
	})
	testcheck.NoError(t, err)
	_, err = node.NodePublishVolume(t.Context(), &csi.NodePublishVolumeRequest{
		VolumeId: id, StagingTargetPath: root + "/staging", TargetPath: root + "/target", VolumeCapability: blockWriter,
	})
	testcheck.NoError(t, err)
	fs, err := nodefs.NewReal(root)
	testcheck.NoError(t, err)
	lock, err := fs.LockDevice(root + "/target")
	testcheck.NoError(t, err)
	if err := detach(t.Context(), d, id); status.Code(err) != codes.FailedPrecondition &&
		status.Code(err) != codes.Aborted {
		t.Errorf("detach while %s locks it: %v", lock, err)
	}
	testcheck.NoError(t, fs.UnlockDevice(root+"/target"))
	testcheck.NoError(t, detach(t.Context(), d, id))
}
