package csi_test

import (
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins"
)

func TestSELinuxLabel(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	const label = "system_u:object_r:container_file_t:s0:c1,c2"
	option := []string{"noatime", `context="` + label + `"`}
	tests := []struct {
		name     string
		driver   *storagev1.CSIDriverSpec // nil: no object
		label    string
		supports bool
		want     []string
	}{
		{"the driver mounts with it", &storagev1.CSIDriverSpec{SELinuxMount: &yes}, label, true, option},
		{"the driver does not", &storagev1.CSIDriverSpec{SELinuxMount: &no}, label, false, []string{"noatime"}},
		{"not said", &storagev1.CSIDriverSpec{}, label, false, []string{"noatime"}},
		{"no CSIDriver", nil, label, false, []string{"noatime"}},
		{"no label", &storagev1.CSIDriverSpec{SELinuxMount: &yes}, "", true, []string{"noatime"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, d := stubDisk(t, true, false)
			if tt.driver != nil {
				d.csiDriver(*tt.driver)
			}
			supports, err := d.plugin.SupportsSELinuxContextMount(d.spec)
			d.NoError(err)
			testcheck.Equal(d, "supported", tt.supports, supports)
			d.use = plugins.MountOptions{SELinuxLabel: tt.label}
			d.NoError(d.mountDevice())
			d.NoError(d.setUp())
			testcheck.Equal(d, "options when staged", tt.want, last[*csispec.NodeStageVolumeRequest](s).GetVolumeCapability().GetMount().GetMountFlags())
			testcheck.Equal(d, "options when published", tt.want, last[*csispec.NodePublishVolumeRequest](s).GetVolumeCapability().GetMount().GetMountFlags())
			testcheck.Equal(d, "options of the volume, which are everybody's", []string{"noatime"},
				d.spec.PersistentVolume.Spec.MountOptions)

			staged, err := d.plugin.ReconstructDevices()
			d.NoError(err)
			testcheck.Equal(d, "staged volumes", 1, len(staged))
			made, err := d.plugin.Reconstruct("pv", podUID)
			d.NoError(err)
			kept := ""
			if len(tt.want) > 1 {
				kept = label
			}
			testcheck.Equal(d, "label that is kept", kept, made.SELinuxLabel)
			testcheck.Equal(d, "label that is kept of what is staged", kept, staged[0].SELinuxLabel)
			d.NoError(d.tearDown())
			d.NoError(d.unmountDevice())
			testcheck.Equal(d, "disk", []string{d.emptyDriverDir(), emptyPodDir}, d.leaves())
		})
	}
}

func TestSELinuxLabelOfInlineVolume(t *testing.T) {
	t.Parallel()
	s, d := stubDisk(t, true, false)
	yes := true
	d.csiDriver(storagev1.CSIDriverSpec{
		SELinuxMount: &yes, VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecycleEphemeral},
	})
	inline := d.written()
	inline.use = plugins.MountOptions{SELinuxLabel: "s0:c1"}
	d.NoError(inline.setUp())
	testcheck.Equal(d, "options", []string{`context="s0:c1"`},
		last[*csispec.NodePublishVolumeRequest](s).GetVolumeCapability().GetMount().GetMountFlags())
}

func TestMountOptionsAreSupported(t *testing.T) {
	t.Parallel()
	_, d := stubDisk(t, true, false)
	testcheck.Equal(d, "taken", true, d.plugin.SupportsMountOption())
}
