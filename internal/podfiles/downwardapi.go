package podfiles

import (
	"context"
	"path"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/volsim/volsim/internal/fieldpath"
)

// downwardAPI makes files, in memory, of fields of the pod itself.
//
// Upstream: pkg/volume/downwardapi (v1.36).
type downwardAPI struct{ allocatable corev1.ResourceList }

func (downwardAPI) name() string { return DownwardAPIName }

func (downwardAPI) supports(volume *corev1.Volume) bool { return volume.DownwardAPI != nil }

func (downwardAPI) volumeName(volume *corev1.Volume) string { return volume.Name }

func (downwardAPI) empty() corev1.VolumeSource {
	return corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{}}
}

func (downwardAPI) memory() bool { return true }

func (downwardAPI) forget(types.UID) {}

func (s downwardAPI) payload(_ context.Context, pod *corev1.Pod, volume *corev1.Volume, _ *int64) (Payload, error) {
	return fieldsOf(pod, volume.DownwardAPI.Items, volume.DownwardAPI.DefaultMode, s.allocatable)
}

// fieldsOf returns files with fields of a pod. allocatable is what the node has for a container
// without limits.
//
// Upstream: pkg/volume/downwardapi CollectData (v1.36).
func fieldsOf(
	pod *corev1.Pod, items []corev1.DownwardAPIVolumeFile, mode *int32, allocatable corev1.ResourceList,
) (Payload, error) {
	if mode == nil {
		return nil, errNoMode
	}
	files := make(Payload, len(items))
	var failed []error
	for i := range items {
		item := &items[i]
		var value string
		var err error
		switch {
		case item.FieldRef != nil:
			value, err = fieldpath.Metadata(pod, item.FieldRef.FieldPath)
		case item.ResourceFieldRef != nil:
			value, err = fieldpath.Resource(pod, item.ResourceFieldRef, allocatable)
		}
		if err != nil {
			failed = append(failed, err)
		}
		files[path.Clean(item.Path)] = File{Data: []byte(value), Mode: modeOr(item.Mode, *mode)}
	}
	return files, utilerrors.NewAggregate(failed)
}
