package attachdetach

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
)

// listAgain is after how long a list is asked for again that the API server did not give.
const listAgain = time.Second

// recoverState draws the two pictures from the caches when they are full: what stands in the nodes' statuses is attached; what
// has a VolumeAttachment object besides may be; what the pods want is wanted. All volumes are looked at afterwards: what
// nobody wants any more is detached, what is uncertain and wanted is attached again.
//
// Upstream: pkg/controller/volume/attachdetach populateActualStateOfWorld, populateDesiredStateOfWorld (v1.36).
func (c *Controller) recoverState(ctx context.Context) {
	stored := c.storedAttachments(ctx)
	c.recovered = true
	c.recoverNodes()
	for _, attachment := range append(sorted(list(c.attachments.List)), stored...) {
		c.recoverAttachment(attachment)
	}
	for _, a := range c.actual.All() {
		c.doubt(a)
	}
	c.populateAll()
	for _, volumes := range sortedValues(c.actual.volumes) {
		c.enqueueAttachments(sortedValues(volumes))
	}
}

// storedAttachments are the VolumeAttachments that there are. It leaves the component: the first list in the cache may be
// old, and an attachment that it does not show must not be passed over when a pod wants the volume on another node. Where
// there are neither volumes nor nodes there are no attachments.
//
// Differs: upstream trusts its cache (I16b).
func (c *Controller) storedAttachments(ctx context.Context) []*storagev1.VolumeAttachment {
	if len(list(c.persistent.List)) == 0 && len(list(c.nodes.List)) == 0 {
		return nil
	}
	for {
		stored, err := c.cfg.Client.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
		if err != nil {
			logr.FromContextOrDiscard(ctx).Error(err, "list VolumeAttachments")
			c.cfg.Component.Sleep(listAgain)
			continue
		}
		attachments := make([]*storagev1.VolumeAttachment, len(stored.Items))
		for i := range stored.Items {
			attachments[i] = &stored.Items[i]
		}
		return attachments
	}
}

func (c *Controller) recoverNodes() {
	for _, node := range sorted(list(c.nodes.List)) {
		name := types.NodeName(node.Name)
		for _, attached := range node.Status.VolumesAttached {
			c.actual.markAttached(attached.Name, name, nil, attached.DevicePath)
			c.scheduleVerify(attached.Name)
		}
		c.actual.setInUse(name, node.Status.VolumesInUse)
		if _, ok := node.Annotations[ManagedAnnotation]; ok {
			c.desired.addNode(name)
		}
	}
}

// recoverAttachment takes a VolumeAttachment for a sign that the volume may be attached, unless it is known to be.
//
// Differs: upstream does not learn from it what a volume is that is known to be attached.
//
// Upstream: pkg/controller/volume/attachdetach processVolumeAttachments (v1.36).
func (c *Controller) recoverAttachment(attachment *storagev1.VolumeAttachment) {
	if volume, spec := c.volumeAttached(attachment); spec != nil {
		c.actual.addUncertain(volume, types.NodeName(attachment.Spec.NodeName), spec)
	}
}

// persistentVolumeAdded looks at the VolumeAttachments of a volume that the cache did not have.
func (c *Controller) persistentVolumeAdded(volume *corev1.PersistentVolume) {
	for _, attachment := range sorted(list(c.attachments.List)) {
		if source := attachment.Spec.Source.PersistentVolumeName; source != nil && *source == volume.Name {
			c.attachmentChanged(attachment)
		}
	}
}

// volumeAttached is the volume of a VolumeAttachment. One whose PersistentVolume is gone tells nothing: then the spec is
// nil.
func (c *Controller) volumeAttached(attachment *storagev1.VolumeAttachment) (corev1.UniqueVolumeName, *plugins.Spec) {
	spec := c.attachedSpec(attachment)
	if spec == nil {
		return "", nil
	}
	volume, _, resolution := c.identify(spec)
	if resolution != attachable {
		return "", nil
	}
	return volume, spec
}
