package pvcontroller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// The annotations that make a class the default if their value is "true".
//
// Upstream: pkg/volume/util IsDefaultStorageClassAnnotation, BetaIsDefaultStorageClassAnnotation
// (v1.36).
const (
	annDefaultClass     = "storageclass.kubernetes.io/is-default-class"
	annDefaultClassBeta = "storageclass.beta.kubernetes.io/is-default-class"
)

// defaultClass returns the default class: of those marked as default, the newest, then the first by
// name.
//
// Upstream: pkg/volume/util GetDefaultClass (v1.36).
func defaultClass(classes []*storagev1.StorageClass) *storagev1.StorageClass {
	var best *storagev1.StorageClass
	for _, class := range classes {
		if isDefault(class) && (best == nil || precedes(class, best)) {
			best = class
		}
	}
	return best
}

func precedes(a, b *storagev1.StorageClass) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.Name < b.Name
	}
	return b.CreationTimestamp.Before(&a.CreationTimestamp)
}

func isDefault(class *storagev1.StorageClass) bool {
	return class.Annotations[annDefaultClass] == "true" || class.Annotations[annDefaultClassBeta] == "true"
}

// isDelayed reports whether claims of a class are bound only when a pod that uses them is
// scheduled. It is false for nil.
func isDelayed(class *storagev1.StorageClass) bool {
	return class != nil && class.VolumeBindingMode != nil &&
		*class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// setClass sets the default class on a claim without a class. The update event requeues the claim.
//
// Upstream: pkg/controller/volume/persistentvolume assignDefaultStorageClass (v1.36).
func (c *Controller) setClass(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass,
) error {
	changed := claim.DeepCopy()
	changed.Spec.StorageClassName = &class.Name
	_, err := c.writeClaim(ctx, changed)
	return err
}
