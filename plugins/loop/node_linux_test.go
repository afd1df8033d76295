package loop

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/volsim/volsim/internal/blockcsi/blockcsitest"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/nodefs"
)

// mounted returns the capability of a volume with ext4.
func mounted(mode csi.VolumeCapability_AccessMode_Mode, group string, flags ...string) *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode},
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{
			MountFlags: flags, VolumeMountGroup: group,
		}},
	}
}

const single = csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER

func TestVolumesGetTheGroupOfTheirPods(t *testing.T) {
	r := newRig(t, Config{MountGroup: true})
	id := r.mustMake("shared", nil)
	testcheck.NoError(t, r.stage(id, mounted(single, "")))
	testcheck.NoError(t, blockcsitest.WriteFile(r.staging(id)+"/old", nil))
	target := filepath.Join(r.root, "pods/a")
	testcheck.NoError(t, r.publish(id, target, mounted(single, "3000")))
	testcheck.NoError(t, blockcsitest.WriteFile(target+"/new", nil))
	for _, name := range []string{target, target + "/old", target + "/new"} {
		if info, err := r.fs.Stat(name); err != nil || info.GID != 3000 {
			t.Errorf("%s is of group %d (%v), want 3000", name, info.GID, err)
		}
	}
	wantCode(t, r.publish(id, filepath.Join(r.root, "pods/b"), mounted(single, "staff")), codes.InvalidArgument)
	response, err := r.node.NodeGetCapabilities(t.Context(), &csi.NodeGetCapabilitiesRequest{})
	testcheck.NoError(t, err)
	if !strings.Contains(response.String(), "VOLUME_MOUNT_GROUP") {
		t.Errorf("capabilities are %v", response)
	}
}

func TestSingleWriter(t *testing.T) {
	const alone = csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
	const several = csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER
	asDevice := func(mode csi.VolumeCapability_AccessMode_Mode) *csi.VolumeCapability {
		return &csi.VolumeCapability{
			AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode}, AccessType: blockWriter.GetAccessType(),
		}
	}
	tests := map[string]func(csi.VolumeCapability_AccessMode_Mode) *csi.VolumeCapability{
		"mounted": func(mode csi.VolumeCapability_AccessMode_Mode) *csi.VolumeCapability { return mounted(mode, "") },
		"device":  asDevice,
	}
	for name, capability := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{})
			id := r.mustMake("single", nil)
			testcheck.NoError(t, r.stage(id, capability(alone)))
			for range 2 {
				testcheck.NoError(t, r.publish(id, filepath.Join(r.root, "pods/a"), capability(alone)))
			}
			wantCode(t, r.publish(id, filepath.Join(r.root, "pods/b"), capability(alone)), codes.FailedPrecondition)
			testcheck.NoError(t, r.publish(id, filepath.Join(r.root, "pods/b"), capability(several)))
		})
	}
}

func TestNodeAttaches(t *testing.T) {
	r := newRig(t, Config{NodeAttaches: true})
	id := r.mustMake("own", nil)
	_, err := attach(t, r.Driver, id)
	wantCode(t, err, codes.Unimplemented)
	for range 2 {
		testcheck.NoError(t, r.stage(id, writer))
	}
	testcheck.NoError(t, blockcsitest.WriteFile(r.staging(id)+"/file", []byte("1")))
	wantCode(t, r.deleteVolume(t, id), codes.FailedPrecondition)
	r.again()
	for range 2 {
		testcheck.NoError(t, r.unstage(id))
	}
	if attachments, err := r.pool.Attachments(t.Context()); err != nil || len(attachments) != 0 {
		t.Errorf("attached after it was unstaged: %v (%v)", attachments, err)
	}
	reader := mounted(csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY, "")
	testcheck.NoError(t, r.stage(id, reader))
	if err := blockcsitest.WriteFile(r.staging(id)+"/file", nil); err == nil {
		t.Error("a volume for reading was written to")
	}
	testcheck.NoError(t, r.unstage(id))
	wantCode(t, r.deleteVolume(t, id), codes.OK)
}

func TestMountFlags(t *testing.T) {
	r := newRig(t, Config{})
	id := r.mustMake("flags", nil)
	testcheck.NoError(t, r.stage(id, mounted(single, "", "noatime", "nodiscard")))
	out, err := exec.Command("findmnt", "-n", "-o", "OPTIONS", r.staging(id)).Output()
	testcheck.NoError(t, err)
	if got := string(out); !strings.Contains(got, "noatime") ||
		strings.Contains(strings.ReplaceAll(got, "nodiscard", ""), "discard") {
		t.Errorf("mounted with %s", got)
	}
	testcheck.NoError(t, r.unstage(id))
	testcheck.NoError(t, r.stage(id, mounted(single, "", "ro")))
	mount, err := r.fs.Mounts()
	if testcheck.NoError(t, err); len(mount) != 1 || mount[0] != (nodefs.Mount{
		Path: r.staging(id), Source: mount[0].Source, FSType: "ext4", ReadOnly: true,
	}) {
		t.Errorf("mounted: %v", mount)
	}
	wantCode(t, r.stage(id, mounted(single, "")), codes.AlreadyExists)
	testcheck.NoError(t, r.unstage(id))
	if err := r.stage(id, mounted(single, "", "nonsense=1")); err == nil {
		t.Error("a mount flag that there is none of was taken")
	}
}
