package plugins_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/plugins"
)

// inTree is a volume of each migrated plugin, as a PersistentVolume and inline, and its handle.
var inTree = map[string]struct {
	persistent corev1.PersistentVolumeSource
	inline     corev1.VolumeSource
	handle     string
	inlined    string // its handle when a pod writes it out
}{
	"kubernetes.io/aws-ebs": {
		corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://zone-a/vol-1"}},
		corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://zone-a/vol-1"}},
		"vol-1", "vol-1",
	},
	"kubernetes.io/azure-disk": {
		corev1.PersistentVolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{
			DiskName:    "d",
			DataDiskURI: "/subscriptions/x/d",
		}},
		corev1.VolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{DiskName: "d", DataDiskURI: "/subscriptions/x/d"}},
		"/subscriptions/x/d", "/subscriptions/x/d",
	},
	"kubernetes.io/azure-file": {
		corev1.PersistentVolumeSource{AzureFile: &corev1.AzureFilePersistentVolumeSource{
			SecretName: "s-secret",
			ShareName:  "share",
		}},
		corev1.VolumeSource{AzureFile: &corev1.AzureFileVolumeSource{SecretName: "s-secret", ShareName: "share"}},
		"#s-secret#share#pv#default", "#s-secret#share#v#default",
	},
	"kubernetes.io/cinder": {
		corev1.PersistentVolumeSource{Cinder: &corev1.CinderPersistentVolumeSource{VolumeID: "c-1"}},
		corev1.VolumeSource{Cinder: &corev1.CinderVolumeSource{VolumeID: "c-1"}},
		"c-1", "c-1",
	},
	"kubernetes.io/gce-pd": {
		corev1.PersistentVolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: "p-1"}},
		corev1.VolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: "p-1"}},
		"projects/UNSPECIFIED/zones/zone-a/disks/p-1", "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/p-1",
	},
	"kubernetes.io/portworx-volume": {
		corev1.PersistentVolumeSource{PortworxVolume: &corev1.PortworxVolumeSource{VolumeID: "x-1"}},
		corev1.VolumeSource{PortworxVolume: &corev1.PortworxVolumeSource{VolumeID: "x-1"}},
		"x-1", "x-1",
	},
	"kubernetes.io/vsphere-volume": {
		corev1.PersistentVolumeSource{VsphereVolume: &corev1.VsphereVirtualDiskVolumeSource{VolumePath: "[a] v"}},
		corev1.VolumeSource{VsphereVolume: &corev1.VsphereVirtualDiskVolumeSource{VolumePath: "[a] v"}},
		"[a] v", "[a] v",
	},
}

func TestTranslateMigratedVolumes(t *testing.T) {
	t.Parallel()
	migrated := plugins.Migrated()
	if diff := cmp.Diff(slices.Sorted(maps.Keys(migrated)), slices.Sorted(maps.Keys(inTree))); diff != "" {
		t.Fatalf("plugins that are migrated, and that are tried (-want +got):\n%s", diff)
	}
	for plugin, volume := range inTree {
		persistent := &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pv", Labels: map[string]string{corev1.LabelTopologyZone: "zone-a"}},
			Spec: corev1.PersistentVolumeSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, PersistentVolumeSource: volume.persistent,
				ClaimRef: &corev1.ObjectReference{Namespace: "default", Name: "c"},
			},
		}
		before := persistent.DeepCopy()
		check := func(what string, spec *plugins.Spec, handle string, inline bool) {
			got, err := migrated.Translate(spec, "default")
			if err != nil {
				t.Errorf("%s %s: %v", plugin, what, err)
				return
			}
			source := got.PersistentVolume.Spec.CSI
			if source == nil || source.Driver != migrated[plugin] || source.VolumeHandle != handle {
				t.Errorf("%s %s: %v, want handle %s of driver %s", plugin, what, source, handle, migrated[plugin])
			}
			if got.Inline != inline || !got.ReadOnly || got.Volume != nil {
				t.Errorf("%s %s: inline %v, read-only %v, volume %v", plugin, what, got.Inline, got.ReadOnly, got.Volume)
			}
		}
		check("as PersistentVolume", &plugins.Spec{PersistentVolume: persistent, ReadOnly: true}, volume.handle, false)
		check("in a pod", &plugins.Spec{Volume: &corev1.Volume{Name: "v", VolumeSource: volume.inline}, ReadOnly: true},
			volume.inlined, true)
		if diff := cmp.Diff(before, persistent); diff != "" {
			t.Errorf("%s: what was read is changed (-want +got):\n%s", plugin, diff)
		}
	}
}

func TestTranslateKeepsOtherVolumes(t *testing.T) {
	t.Parallel()
	ebs := &plugins.Spec{Volume: &corev1.Volume{Name: "v", VolumeSource: inTree["kubernetes.io/aws-ebs"].inline}}
	for name, test := range map[string]struct {
		migration plugins.Migration
		spec      *plugins.Spec
	}{
		"of a CSI driver": {plugins.Migrated(), &plugins.Spec{PersistentVolume: &corev1.PersistentVolume{
			Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"},
			}},
		}}},
		"of NFS": {plugins.Migrated(), &plugins.Spec{PersistentVolume: &corev1.PersistentVolume{
			Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
				NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/"},
			}},
		}}},
		"a pod's own":              {plugins.Migrated(), &plugins.Spec{Volume: &corev1.Volume{Name: "v"}}},
		"of a plugin that is left": {plugins.Migration{}, ebs},
	} {
		if got, err := test.migration.Translate(test.spec, "default"); err != nil || got != test.spec {
			t.Errorf("%s: %v, %v; want it unchanged", name, got, err)
		}
	}
}

// TestTranslateFails has an invalid handle.
func TestTranslateFails(t *testing.T) {
	t.Parallel()
	spec := &plugins.Spec{Volume: &corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{
		AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://a/b/c/d"},
	}}}
	if got, err := plugins.Migrated().Translate(spec, "default"); err == nil {
		t.Errorf("it is %v", got.PersistentVolume.Spec.CSI)
	}
}
