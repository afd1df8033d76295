package podfiles

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// configMaps makes files of the keys of config maps.
//
// Upstream: pkg/volume/configmap (v1.36).
type configMaps struct{ client kubernetes.Interface }

func (configMaps) name() string { return ConfigMapName }

func (configMaps) supports(volume *corev1.Volume) bool { return volume.ConfigMap != nil }

func (configMaps) volumeName(volume *corev1.Volume) string {
	return volume.Name + "/" + volume.ConfigMap.Name
}

func (configMaps) empty() corev1.VolumeSource {
	return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}
}

func (configMaps) memory() bool { return false }

func (configMaps) forget(types.UID) {}

func (s configMaps) payload(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume, _ *int64) (Payload, error) {
	from := volume.ConfigMap
	return keys{from.Name, from.Items, from.Optional}.configMap(ctx, s.client, pod, from.DefaultMode)
}

// configMap returns the files of a config map.
//
// Differs: upstream reads the object from a cache that it fills by a watch; here each call asks the
// API server, as with configMapAndSecretChangeDetectionStrategy Get.
//
// Upstream: pkg/volume/configmap configMapVolumeMounter.SetUpAt, MakePayload (v1.36).
func (k keys) configMap(
	ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, mode *int32,
) (Payload, error) {
	object, err := client.CoreV1().ConfigMaps(pod.Namespace).Get(ctx, k.object, metav1.GetOptions{})
	if err != nil {
		if err := k.readError(err, "configmap"); err != nil {
			return nil, err
		}
		object = &corev1.ConfigMap{}
	}
	all := make(map[string][]byte, len(object.Data)+len(object.BinaryData))
	for key, value := range object.Data { // independent of the order
		all[key] = []byte(value)
	}
	for key, value := range object.BinaryData { // validation: no key is in both
		all[key] = value
	}
	return k.files(all, mode, "configmap references non-existent config key: %s")
}
