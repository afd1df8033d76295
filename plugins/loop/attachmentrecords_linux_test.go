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
)

// boots restarts the machine of a rig: its mounts and devices are removed, and another file takes
// the device that a volume had, so that it gets another one.
func (r *rig) boots(device string) {
	r.Helper()
	must(r.T, r.fs.UnmountAll())
	must(r.T, r.Reset(r.Context(), "one"))
	file := filepath.Join(r.T.TempDir(), "other")
	must(r.T, os.WriteFile(file, make([]byte, mebibyte), 0o600))
	for range 16 { // until it is that device
		taken, err := loopdev.Bind(r.Context(), file, "other", false)
		must(r.T, err)
		bound, err := loopdev.At(taken)
		must(r.T, err)
		r.Cleanup(func() { must(r.T, loopdev.Unbind(r.T.Context(), bound)) })
		if taken == device {
			break
		}
	}
	r.again()
	_, err := r.Recover(r.Context())
	must(r.T, err)
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
	must(t, r.stageAs(id, device))
	must(t, blockcsitest.WriteFile(r.staging(id)+"/file", []byte("kept")))
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
		must(t, r.stageAs(id, device))
	}
	if got, err := blockcsitest.ReadFile(r.staging(id) + "/file"); string(got) != "kept" {
		t.Errorf("found %q, %v", got, err)
	}
	now, err := r.pool.findAttachment(id)
	if err != nil || now == nil || now.Device == device {
		t.Errorf("attached as %+v, %v; want another device than %s", now, err, device)
	}
	must(t, r.unstage(id))
	must(t, detach(t.Context(), r.Driver, id))
	wantCode(t, r.stageAs(id, device), codes.FailedPrecondition)
	must(t, r.deleteVolume(t, id))
}

// A volume that is not staged again after a restart can be detached and attached to another node.
func TestVolumeIsDetachedAfterRestart(t *testing.T) {
	r := newRig(t, Config{})
	id := r.mustMake("let go", nil)
	r.boots(mustAttach(t, r.Driver, id))
	must(t, detach(t.Context(), r.Driver, id))
	if all, err := r.pool.Attachments(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("attached: %v, %v", all, err)
	}
	r.Driver.Node("two", r.fs)
	_, err := r.Controller().ControllerPublishVolume(t.Context(), &csi.ControllerPublishVolumeRequest{
		VolumeId: id, NodeId: "two", VolumeCapability: writer,
	})
	must(t, err)
}

// A volume that the node service attaches is not attached beyond the life of its device.
func TestNodeAttachmentIsNotRecorded(t *testing.T) {
	r := newRig(t, Config{NodeAttaches: true})
	id := r.mustMake("own", nil)
	must(t, r.stage(id, writer))
	bound, err := r.pool.findAttachment(id)
	must(t, err)
	r.boots(bound.Device)
	if all, err := r.pool.Attachments(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("attached: %v, %v", all, err)
	}
	must(t, r.stage(id, writer))
	must(t, r.unstage(id))
	must(t, r.deleteVolume(t, id))
}

// A volume whose device could not be created is not attached.
func TestFailedAttachmentIsNotRecorded(t *testing.T) {
	r := newRig(t, Config{})
	id := r.mustMake("failing", nil)
	must(t, os.Rename(r.pool.image(id), r.pool.image(id)+".away"))
	must(t, os.Symlink("/dev/null", r.pool.image(id))) // not a file that can be bound
	if _, err := r.pool.Attach(t.Context(), blockcsi.Volume{ID: id}, "one", false); err == nil {
		t.Error("a device was created for something other than a file")
	}
	if noted, err := r.pool.attachments.Get(id); noted != nil || err != nil {
		t.Errorf("noted: %v, %v", noted, err)
	}
	must(t, os.Rename(r.pool.image(id)+".away", r.pool.image(id)))
}
