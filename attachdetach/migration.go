package attachdetach

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/volsim/volsim/plugins"
)

// migrated are the plugins whose volumes CSI drivers attach. Upstream asks for the annotation
// storage.alpha.kubernetes.io/migrated-plugins of the node's CSINode only where a migration is not complete, and in v1.36
// all are.
//
// Upstream: pkg/volume/csimigration IsMigrationCompleteForPlugin (v1.36).
var migrated = plugins.Migrated()

// specOfAttachment is the volume that a VolumeAttachment names: its PersistentVolume's or the one written out in it; nil where
// there is none.
//
// Differs: upstream passes over volumes that are written out, so that one whose pod went while no controller ran stays
// attached for good (L4).
//
// Upstream: pkg/controller/volume/attachdetach processVolumeAttachments (v1.36).
func (c *Controller) specOfAttachment(attachment *storagev1.VolumeAttachment) *plugins.Spec {
	source := attachment.Spec.Source
	if source.InlineVolumeSpec != nil {
		return &plugins.Spec{PersistentVolume: &corev1.PersistentVolume{Spec: *source.InlineVolumeSpec}, Inline: true}
	}
	if source.PersistentVolumeName == nil {
		return nil
	}
	volume, err := c.persistent.Get(*source.PersistentVolumeName)
	if err != nil {
		return nil
	}
	spec, err := migrated.Translate(&plugins.Spec{PersistentVolume: volume}, "")
	if err != nil {
		return nil
	}
	return spec
}

// sameVolume tells whether two specs are of the same version of a volume. Translated ones are made anew each time.
func sameVolume(a, b *plugins.Spec) bool {
	return a.PersistentVolume == b.PersistentVolume || equality.Semantic.DeepEqual(a.PersistentVolume, b.PersistentVolume)
}
