package csi_test

import (
	"context"
	"strings"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins"
)

func (w *world) secret(namespace, name, key, value string) {
	w.Helper()
	_, err := w.User.CoreV1().Secrets(namespace).Create(context.Background(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{key: []byte(value)},
	}, metav1.CreateOptions{})
	w.NoError(err)
}

// TestSecrets: secrets are read each time, so a change takes effect at once.
func TestSecrets(t *testing.T) {
	t.Parallel()
	s, d := stubDisk(t, true, false)
	source := d.spec.PersistentVolume.Spec.CSI
	source.NodeStageSecretRef = &corev1.SecretReference{Namespace: "default", Name: "stage"}
	source.NodePublishSecretRef = &corev1.SecretReference{Namespace: "kube-system", Name: "publish"}
	d.secret("default", "stage", "user", "alice")
	d.secret("kube-system", "publish", "token", "first")
	d.NoError(d.mountDevice())
	d.NoError(d.setUp())
	testcheck.Equal(d, "staged with", map[string]string{"user": "alice"}, last[*csispec.NodeStageVolumeRequest](s).GetSecrets())
	testcheck.Equal(d, "published with", map[string]string{"token": "first"}, last[*csispec.NodePublishVolumeRequest](s).GetSecrets())

	changed, err := d.User.CoreV1().Secrets("kube-system").Get(t.Context(), "publish", metav1.GetOptions{})
	d.NoError(err)
	changed.Data["token"] = []byte("second")
	_, err = d.User.CoreV1().Secrets("kube-system").Update(t.Context(), changed, metav1.UpdateOptions{})
	d.NoError(err)
	d.NoError(d.setUp())
	testcheck.Equal(d, "published again with", map[string]string{"token": "second"},
		last[*csispec.NodePublishVolumeRequest](s).GetSecrets())
}

// TestSecretOfInlineVolume reads from the pod's namespace.
func TestSecretOfInlineVolume(t *testing.T) {
	t.Parallel()
	s, d := inlineDisk(t, storagev1.VolumeLifecycleEphemeral)
	d.spec.Volume.CSI.NodePublishSecretRef = &corev1.LocalObjectReference{Name: "publish"}
	d.secret("default", "publish", "token", "of the pod's namespace")
	d.secret("kube-system", "publish", "token", "of another")
	d.NoError(d.setUp())
	testcheck.Equal(d, "published with", map[string]string{"token": "of the pod's namespace"},
		last[*csispec.NodePublishVolumeRequest](s).GetSecrets())
}

// TestMissingSecret is transient: the driver was not called, and nothing is left. The text is
// upstream's.
func TestMissingSecret(t *testing.T) {
	t.Parallel()
	s, d := stubDisk(t, true, false)
	source := d.spec.PersistentVolume.Spec.CSI
	source.NodeStageSecretRef = &corev1.SecretReference{Namespace: "default", Name: "stage"}
	source.NodePublishSecretRef = &corev1.SecretReference{Namespace: "default", Name: "publish"}
	for want, err := range map[string]error{
		"fetching NodeStageSecretRef default/stage failed: kubernetes.io/csi: failed to find the secret stage in the namespace default": d.mountDevice(),
		"fetching NodePublishSecretRef default/publish failed: kubernetes.io/csi: failed to find the secret publish in the namespace":   d.setUp(),
	} {
		d.class(want, err, plugins.Transient)
		if !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	testcheck.Equal(d, "requests", 0, len(s.requests))
	testcheck.Equal(d, "disk", nil, d.leaves())
}

// TestStageSecretOfDriverWithoutStaging does not read the secret.
func TestStageSecretOfDriverWithoutStaging(t *testing.T) {
	t.Parallel()
	_, d := stubDisk(t, false, false)
	d.spec.PersistentVolume.Spec.CSI.NodeStageSecretRef = &corev1.SecretReference{Namespace: "default", Name: "stage"}
	d.NoError(d.mountDevice())
	d.NoError(d.setUp())
}
