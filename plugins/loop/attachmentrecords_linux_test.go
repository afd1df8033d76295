package loop

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/volsim/volsim/internal/blockcsi"
	"github.com/volsim/volsim/internal/blockcsi/blockcsitest"
	"github.com/volsim/volsim/internal/loopdev"
	"github.com/volsim/volsim/internal/testcheck"
)

// boots restarts the machine of a rig: its mounts and devices are removed, and another file takes
// the device that a volume had, so that it gets another one.
func (r *rig) boots(device string) {
	r.Helper()
	testcheck.NoError(r.T, r.fs.UnmountAll())
	testcheck.NoError(r.T, r.Reset(r.Context(), "one"))
	file := filepath.Join(r.T.TempDir(), "other")
	testcheck.NoError(r.T, os.WriteFile(file, make([]byte, mebibyte), 0o600))
	for range 16 { // until it is that device
		taken, err := loopdev.Bind(r.Context(), file, "other", false)
		testcheck.NoError(r.T, err)
		bound, err := loopdev.At(taken)
		testcheck.NoError(r.T, err)
		r.Cleanup(func() { testcheck.NoError(r.T, loopdev.Unbind(r.T.Context(), bound)) })
		if taken == device {
			break
		}
	}
	r.again()
	_, err := r.Recover(r.Context())
	testcheck.NoError(r.T, err)
}

// stageAs stages a volume with the device of an earlier attachment.
func (r *rig) stageAs(id, device string) error {
	_, err := r.node.NodeStageVolume(r.Context(), &csi.NodeStageVolumeRequest{
		VolumeId: id, StagingTargetPath: r.staging(id), VolumeCapability: writer,
		PublishContext: map[string]string{blockcsi.DeviceKey: device},
	})
	return err
}

// A volume stays attached when the machine restarts. A published volume is staged again with
// another device.
func TestVolumeStaysAttachedAfterRestart(t *testing.T) {
	r := newRig(t, Config{})
	id := r.mustMake("lasting", nil)
	device := mustAttach(t, r.Driver, id)
	testcheck.NoError(t, r.stageAs(id, device))
	testcheck.NoError(t, blockcsitest.WriteFile(r.staging(id)+"/file", []byte("kept")))
	r.boots(device)

	all, err := r.Controller().ListVolumes(t.Context(), &csi.ListVolumesRequest{})
	if nodes := all.GetEntries()[0].GetStatus().GetPublishedNodeIds(); err != nil || len(nodes) != 1 ||
		nodes[0] != "one" {
		t.Errorf("listed as published at %v, %v", nodes, err)
	}
	r.Driver.Node("two", r.fs)
	_, err = r.Controller().ControllerPublishVolume(t.Context(), &csi.ControllerPublishVolumeRequest{
		VolumeId: id, NodeId: "two", VolumeCapability: writer,
	})
	if wantCode(t, err, codes.FailedPrecondition); err != nil &&
		!strings.Contains(err.Error(), "one, without a device since the machine restarted") {
		t.Errorf("refused with %v", err)
	}
	wantCode(t, r.deleteVolume(t, id), codes.FailedPrecondition)

	for range 2 {
		testcheck.NoError(t, r.stageAs(id, device))
	}
	if got, err := blockcsitest.ReadFile(r.staging(id) + "/file"); string(got) != "kept" {
		t.Errorf("found %q, %v", got, err)
	}
	now, err := r.pool.findAttachment(id)
	if err != nil || now == nil || now.Device == device {
		t.Errorf("attached as %+v, %v; want another device than %s", now, err, device)
	}
	testcheck.NoError(t, r.unstage(id))
	testcheck.NoError(t, detach(t.Context(), r.Driver, id))
	wantCode(t, r.stageAs(id, device), codes.FailedPrecondition)
	testcheck.NoError(t, r.deleteVolume(t, id))
}

// A volume that is not staged again after a restart can be detached and attached to another node.
func TestVolumeIsDetachedAfterRestart(t *testing.T) {
	r := newRig(t, Config{})
	id := r.mustMake("let go", nil)
	r.boots(mustAttach(t, r.Driver, id))
	testcheck.NoError(t, detach(t.Context(), r.Driver, id))
	if all, err := r.pool.Attachments(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("attached: %v, %v", all, err)
	}
	r.Driver.Node("two", r.fs)
	_, err := r.Controller().ControllerPublishVolume(t.Context(), &csi.ControllerPublishVolumeRequest{
		VolumeId: id, NodeId: "two", VolumeCapability: writer,
	})
	testcheck.NoError(t, err)
}

// A volume that the node service attaches is not attached beyond the life of its device.
func TestNodeAttachmentIsNotRecorded(t *testing.T) {
	r := newRig(t, Config{NodeAttaches: true})
	id := r.mustMake("own", nil)
	testcheck.NoError(t, r.stage(id, writer))
	bound, err := r.pool.findAttachment(id)
	testcheck.NoError(t, err)
	r.boots(bound.Device)
	if all, err := r.pool.Attachments(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("attached: %v, %v", all, err)
	}
	testcheck.NoError(t, r.stage(id, writer))
	testcheck.NoError(t, r.unstage(id))
	testcheck.NoError(t, r.deleteVolume(t, id))
}

// A volume whose device could not be created is not attached.
func TestFailedAttachmentIsNotRecorded(t *testing.T) {
	r := newRig(t, Config{})
	id := r.mustMake("failing", nil)
	testcheck.NoError(t, os.Rename(r.pool.image(id), r.pool.image(id)+".away"))
	testcheck.NoError(t, os.Symlink("/dev/null", r.pool.image(id))) // not a file that can be bound
	if _, err := r.pool.Attach(t.Context(), blockcsi.Volume{ID: id}, "one", false); err == nil {
		t.Error("a device was created for something other than a file")
	}
	if noted, err := r.pool.attachments.Get(id); noted != nil || err != nil {
		t.Errorf("noted: %v, %v", noted, err)
	}
	testcheck.NoError(t, os.Rename(r.pool.image(id)+".away", r.pool.image(id)))
}
