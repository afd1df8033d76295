package podfiles

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// secrets makes files, in memory, of the keys of secrets.
//
// Upstream: pkg/volume/secret (v1.36).
type secrets struct{ client kubernetes.Interface }

func (secrets) name() string { return SecretName }

func (secrets) supports(volume *corev1.Volume) bool { return volume.Secret != nil }

func (secrets) volumeName(volume *corev1.Volume) string { return volume.Name }

func (secrets) empty() corev1.VolumeSource {
	return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}
}

func (secrets) memory() bool { return true }

func (secrets) forget(types.UID) {}

func (s secrets) payload(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume, _ *int64) (Payload, error) {
	from := volume.Secret
	return keys{from.SecretName, from.Items, from.Optional}.secret(ctx, s.client, pod, from.DefaultMode)
}

// secret returns the files of a secret; see configMap.
//
// Upstream: pkg/volume/secret secretVolumeMounter.SetUpAt, MakePayload (v1.36).
func (k keys) secret(
	ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, mode *int32,
) (Payload, error) {
	object, err := client.CoreV1().Secrets(pod.Namespace).Get(ctx, k.object, metav1.GetOptions{})
	if err != nil {
		if err := k.readError(err, "secret"); err != nil {
			return nil, err
		}
		object = &corev1.Secret{}
	}
	return k.files(object.Data, mode, "references non-existent secret key: %s")
}
