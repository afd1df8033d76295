package attachdetach

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/volsim/volsim/plugins"
)

// migrated translates the volumes of plugins that were migrated to CSI. Upstream reads the
// annotation storage.alpha.kubernetes.io/migrated-plugins of the node's CSINode only where a
// migration is incomplete. In v1.36 all are complete.
//
// Upstream: pkg/volume/csimigration IsMigrationCompleteForPlugin (v1.36).
var migrated = plugins.Migrated()

// specOfAttachment returns the volume that a VolumeAttachment names: its PersistentVolume or its
// inline volume spec. It returns nil if there is none.
//
// Differs: upstream ignores inline volume specs. An inline volume whose pod was deleted while no
// controller ran stays attached indefinitely (L4).
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

// sameVolume reports whether two specs have the same version of a volume. Translated specs are new
// objects each time.
func sameVolume(a, b *plugins.Spec) bool {
	return a.PersistentVolume == b.PersistentVolume ||
		equality.Semantic.DeepEqual(a.PersistentVolume, b.PersistentVolume)
}
