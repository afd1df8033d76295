package plugins_test

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/plugins"
)

func TestSplitUniqueName(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name           corev1.UniqueVolumeName
		plugin, volume string
		ok             bool
	}{
		{"kubernetes.io/csi/csi.example.com^vol-1", "kubernetes.io/csi", "csi.example.com^vol-1", true},
		{"kubernetes.io/nfs/server/export/data", "kubernetes.io/nfs", "server/export/data", true},
		{"example.com/disk/", "example.com/disk", "", true},
		{"//v", "/", "v", true},
		{"example.com/disk", "", "", false},
		{"disk", "", "", false},
		{"", "", "", false},
	}
	for _, tt := range tests {
		plugin, volume, err := plugins.SplitUniqueName(tt.name)
		if plugin != tt.plugin || volume != tt.volume || (err == nil) != tt.ok {
			t.Errorf("split %q: %q, %q, %v; want %q, %q, ok: %v", tt.name, plugin, volume, err, tt.plugin, tt.volume, tt.ok)
		}
	}
}

func TestSplitUniqueNameUndoesUniqueVolumeName(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		plugin := rapid.StringMatching(`[a-z.]{1,10}/[a-z-]{1,10}`).Draw(t, "plugin")
		volume := rapid.String().Draw(t, "volume")
		gotPlugin, gotVolume, err := plugins.SplitUniqueName(plugins.UniqueVolumeName(plugin, volume))
		if err != nil || gotPlugin != plugin || gotVolume != volume {
			t.Errorf("%q, %q, %v; want %q, %q", gotPlugin, gotVolume, err, plugin, volume)
		}
	})
}

func TestNames(t *testing.T) {
	t.Parallel()
	tests := []struct{ what, got, want string }{
		{"unique name", string(plugins.UniqueVolumeName("kubernetes.io/csi", "d^h")), "kubernetes.io/csi/d^h"},
		{
			"unique name for a pod", string(plugins.UniquePodVolumeName("kubernetes.io/empty-dir", "tmp", "uid-1")),
			"kubernetes.io/empty-dir/uid-1-tmp",
		},
		{"spec of a volume", (&plugins.Spec{PersistentVolume: &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}}).Name(), "pv"},
		{"spec of a volume in a pod", (&plugins.Spec{Volume: &corev1.Volume{Name: "tmp"}}).Name(), "tmp"},
		{"empty spec", (&plugins.Spec{}).Name(), ""},
		{"final", plugins.Final.String(), "final"},
		{"transient", plugins.Transient.String(), "transient"},
		{"uncertain", plugins.Uncertain.String(), "uncertain"},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("%s: %q, want %q", tt.what, tt.got, tt.want)
		}
	}
}

func TestMultiAttachAllowed(t *testing.T) {
	t.Parallel()
	persistent := func(modes ...corev1.PersistentVolumeAccessMode) *plugins.Spec {
		return &plugins.Spec{PersistentVolume: &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{AccessModes: modes}}}
	}
	inline := func(source corev1.VolumeSource) *plugins.Spec {
		return &plugins.Spec{Volume: &corev1.Volume{VolumeSource: source}}
	}
	tests := []struct {
		name string
		spec *plugins.Spec
		want bool
	}{
		{"nothing known", nil, true},
		{"empty", &plugins.Spec{}, true},
		{"no mode", persistent(), true},
		{"RWO", persistent(corev1.ReadWriteOnce), false},
		{"RWOP", persistent(corev1.ReadWriteOncePod), false},
		{"RWX", persistent(corev1.ReadWriteMany), true},
		{"ROX", persistent(corev1.ReadOnlyMany), true},
		{"RWO and RWX", persistent(corev1.ReadWriteOnce, corev1.ReadWriteMany), true},
		{"RWO and RWOP", persistent(corev1.ReadWriteOnce, corev1.ReadWriteOncePod), false},
		{"NFS in a pod", inline(corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}), true},
		{"Azure disk in a pod", inline(corev1.VolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{}}), false},
		{"Cinder disk in a pod", inline(corev1.VolumeSource{Cinder: &corev1.CinderVolumeSource{}}), false},
	}
	for _, tt := range tests {
		if got := plugins.MultiAttachAllowed(tt.spec); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestClassOf(t *testing.T) {
	t.Parallel()
	root := errors.New("root")
	of := func(c plugins.Class) error { return &plugins.Error{Class: c, Err: root} }
	tests := []struct {
		name string
		err  error
		want plugins.Class
	}{
		{"plain", root, plugins.Final},
		{"none", nil, plugins.Final},
		{"final", of(plugins.Final), plugins.Final},
		{"transient", of(plugins.Transient), plugins.Transient},
		{"uncertain", of(plugins.Uncertain), plugins.Uncertain},
		{"wrapped", fmt.Errorf("stage: %w", of(plugins.Uncertain)), plugins.Uncertain},
		{"wrapped twice", fmt.Errorf("mount: %w", fmt.Errorf("stage: %w", of(plugins.Transient))), plugins.Transient},
		{"the outermost counts", &plugins.Error{Class: plugins.Uncertain, Err: of(plugins.Transient)}, plugins.Uncertain},
		{"joined", errors.Join(root, of(plugins.Uncertain)), plugins.Uncertain},
		{"the first of two joined", errors.Join(of(plugins.Transient), of(plugins.Uncertain)), plugins.Transient},
		{"dangling", &plugins.DanglingError{CurrentNode: "node-1", Err: of(plugins.Uncertain)}, plugins.Uncertain},
	}
	for _, tt := range tests {
		if got := plugins.ClassOf(tt.err); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
		if tt.err != nil && !errors.Is(tt.err, root) {
			t.Errorf("%s: the error within is lost", tt.name)
		}
	}
}
