package csi_test

import (
	"fmt"
	"io/fs"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
)

// grouped are the mount options of a pod with fsGroup 3000.
func grouped() plugins.MountOptions {
	group := int64(3000)
	return plugins.MountOptions{FSGroup: &group}
}

// TestFSGroup changes the group of files according to the driver's policy, and does so at each
// mount.
func TestFSGroup(t *testing.T) {
	t.Parallel()
	const (
		rwo, rwop = corev1.ReadWriteOnce, corev1.ReadWriteOncePod
		rwx, rox  = corev1.ReadWriteMany, corev1.ReadOnlyMany
		fsType    = storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy
		file      = storagev1.FileFSGroupPolicy
		none      = storagev1.NoneFSGroupPolicy
	)
	type modes = []corev1.PersistentVolumeAccessMode
	tests := []struct {
		name     string
		policy   storagev1.FSGroupPolicy // "": no CSIDriver
		fsType   string
		modes    modes
		readOnly bool
		noGroup  bool
		want     int // whose the file is then
	}{
		{name: "no group", fsType: "ext4", modes: modes{rwo}, noGroup: true},
		{name: "no file system", modes: modes{rwo}},
		{name: "no file system, no group", modes: modes{rwo}, noGroup: true},
		{name: "ReadWriteOnce", fsType: "ext4", modes: modes{rwo}, want: 3000},
		{name: "ReadWriteOncePod", fsType: "ext4", modes: modes{rwop}, want: 3000},
		{name: "ReadWriteOnce among others", fsType: "ext4", modes: modes{rwx, rwo}, want: 3000},
		{name: "for many nodes", fsType: "ext4", modes: modes{rwx, rox}},
		{name: "no access modes", fsType: "ext4"},
		{name: "read-only", fsType: "ext4", modes: modes{rwo}, readOnly: true},
		{name: "ReadWriteOnceWithFSType, all right", policy: fsType, fsType: "ext4", modes: modes{rwo}, want: 3000},
		{name: "ReadWriteOnceWithFSType, no group", policy: fsType, modes: modes{rwo}, noGroup: true},
		{name: "ReadWriteOnceWithFSType, no file system", policy: fsType, modes: modes{rwo}},
		{name: "ReadWriteOnceWithFSType, read-only", policy: fsType, fsType: "ext4", modes: modes{rwo}, readOnly: true},
		{name: "ReadWriteOnceWithFSType, for many nodes", policy: fsType, fsType: "ext4", modes: modes{rwx}},
		{name: "None", policy: none, fsType: "ext4", modes: modes{rwo}},
		{name: "File", policy: file, modes: modes{rwx}, want: 3000},
		{name: "File, no group", policy: file, modes: modes{rwx}, noGroup: true},
		{name: "File, read-only", policy: file, fsType: "ext4", modes: modes{rwo}, readOnly: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := arrayDisk(t)
			if tt.policy != "" {
				d.csiDriver(storagev1.CSIDriverSpec{FSGroupPolicy: &tt.policy})
			}
			volume := &d.spec.PersistentVolume.Spec
			volume.CSI.FSType, volume.AccessModes = "", modes{rwo}
			d.NoError(d.mountDevice())
			d.NoError(d.disk.WriteFile(d.globalMount()+"/file", []byte("content")))
			volume.CSI.FSType, volume.AccessModes, d.spec.ReadOnly = tt.fsType, tt.modes, tt.readOnly
			if d.use = grouped(); tt.noGroup {
				d.use = plugins.MountOptions{}
			}
			d.NoError(d.setUp())
			testcheck.Equal(d, "group of the file", tt.want, d.info("/file").GID)
			d.NoError(d.disk.Chown(d.globalMount()+"/file", -1, 7))
			if tt.want != 0 {
				d.NoError(d.setUp())
				testcheck.Equal(d, "group of the file, when it is set up again", tt.want, d.info("/file").GID)
			}
		})
	}
}

// info describes a file as the pod sees it.
func (d *disk) info(at string) nodefs.Info {
	d.Helper()
	info, err := d.disk.Stat(d.plugin.MountPath(d.spec, podUID) + at)
	d.NoError(err)
	return info
}

func TestFSGroupOfInlineVolume(t *testing.T) {
	t.Parallel()
	_, d := inlineDisk(t, storagev1.VolumeLifecycleEphemeral)
	d.NoError(d.disk.MkdirAll(inlineDir + "/mount")) // the stub makes nothing
	d.use = grouped()
	d.NoError(d.setUp())
	testcheck.Equal(d, "group", 3000, d.info("").GID)
}

// TestFSGroupChangePolicy: files below a directory that already has the group are skipped on
// demand.
func TestFSGroupChangePolicy(t *testing.T) {
	t.Parallel()
	always, onMismatch := corev1.FSGroupChangeAlways, corev1.FSGroupChangeOnRootMismatch
	for name, tt := range map[string]struct {
		policy *corev1.PodFSGroupChangePolicy
		want   int
	}{"none": {nil, 3000}, "always": {&always, 3000}, "on mismatch": {&onMismatch, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := arrayDisk(t)
			d.spec.PersistentVolume.Spec.CSI.FSType = "ext4"
			d.NoError(d.mountDevice())
			d.NoError(d.disk.WriteFile(d.globalMount()+"/file", nil))
			d.NoError(d.disk.Chown(d.globalMount(), -1, 3000))
			d.NoError(d.disk.Chmod(d.globalMount(), fs.ModeSetgid|0o770))
			d.use = grouped()
			d.use.FSGroupChangePolicy = tt.policy
			d.NoError(d.setUp())
			testcheck.Equal(d, "group of the file", tt.want, d.info("/file").GID)
		})
	}
}

// TestDriverAppliesFSGroup passes the group when staging and publishing, and the kubelet does
// nothing.
func TestDriverAppliesFSGroup(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		can, group bool
		want       string
	}{
		"the driver does":           {true, true, "3000"},
		"the driver does, no group": {true, false, ""},
		"the driver does not":       {false, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			can := []csispec.NodeServiceCapability_RPC_Type{csispec.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME}
			if tt.can {
				can = append(can, csispec.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP)
			}
			s, d := capableDisk(t, can...)
			if tt.group {
				d.use = grouped()
			}
			d.NoError(d.mountDevice())
			d.NoError(d.disk.MkdirAll(d.mountPath("pv"))) // the stub makes nothing
			d.NoError(d.setUp())
			testcheck.Equal(d, "told", []string{tt.want, tt.want}, []string{
				last[*csispec.NodeStageVolumeRequest](s).GetVolumeCapability().GetMount().GetVolumeMountGroup(),
				last[*csispec.NodePublishVolumeRequest](s).GetVolumeCapability().GetMount().GetVolumeMountGroup(),
			})
			testcheck.Equal(d, "the kubelet does", tt.group && !tt.can, d.info("").GID == 3000)
		})
	}
}

// TestFSGroupFails leaves the volume mounted: the error is uncertain. A retry succeeds.
func TestFSGroupFails(t *testing.T) {
	t.Parallel()
	d := arrayDisk(t)
	d.spec.PersistentVolume.Spec.CSI.FSType = "ext4"
	d.NoError(d.mountDevice())
	d.use = grouped()
	d.Host.SetStrategy(wrong{"ChangeOwnership"})
	err := d.setUp()
	d.class("SetUp", err, plugins.Uncertain)
	const want = "applyFSGroup failed for vol "
	testcheck.Equal(d, "what is said", want+d.handle, fmt.Sprintf("%.*s", len(want+d.handle), err))
	source := " <- " + d.handle
	testcheck.Equal(d, "disk", append(d.globalLeaves(source), d.podLeaves(source)...), d.leaves(), sorted)
	d.Host.SetStrategy(sim.NewReplayStrategy(nil))
	d.NoError(d.setUp())
	testcheck.Equal(d, "group", 3000, d.info("").GID)
}

// wrong is the default order, except that calls of that name hang.
type wrong struct{ verb string }

func (w wrong) Decide(d *sim.Decision) sim.Move {
	if action, ok := d.Task(0).Pending(); ok && action.Verb == w.verb {
		return sim.Move{Fault: sim.Fault{Kind: sim.FaultHang}}
	}
	return sim.Move{}
}

// TestInvalidFSGroupPolicy has a policy that no API server stores; the error is upstream's.
func TestInvalidFSGroupPolicy(t *testing.T) {
	t.Parallel()
	s, d := stubDisk(t, true, false)
	d.csiDriver(storagev1.CSIDriverSpec{})
	d.Server.UpdateStored("csidrivers", "", stubName, func(stored fake.Object) fake.Object {
		driver := stored.DeepCopyObject().(*storagev1.CSIDriver)
		driver.Spec.FSGroupPolicy = nil
		return driver
	})
	d.Run()
	d.class("SetUp", d.setUp(), plugins.Transient)
	testcheck.Equal(d, "requests", 0, len(s.requests))
}
