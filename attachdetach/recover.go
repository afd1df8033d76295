package attachdetach

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
)

// recoverState draws the two pictures from the caches when they are full: what stands in the nodes' statuses is attached; what
// has a VolumeAttachment object besides may be; what the pods want is wanted. All volumes are looked at afterwards: what
// nobody wants any more is detached, what is uncertain and wanted is attached again.
//
// Upstream: pkg/controller/volume/attachdetach populateActualStateOfWorld, populateDesiredStateOfWorld (v1.36).
func (c *Controller) recoverState() {
	c.recovered = true
	c.recoverNodes()
	for _, attachment := range sorted(list(c.attachments.List)) {
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

func (c *Controller) recoverNodes() {
	for _, node := range sorted(list(c.nodes.List)) {
		name := types.NodeName(node.Name)
		for _, attached := range node.Status.VolumesAttached {
			c.actual.markAttached(attached.Name, name, nil, attached.DevicePath)
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

// volumeAttached is the volume of a VolumeAttachment. One without a PersistentVolume, or whose PersistentVolume is gone,
// tells nothing: then the spec is nil.
func (c *Controller) volumeAttached(attachment *storagev1.VolumeAttachment) (corev1.UniqueVolumeName, *plugins.Spec) {
	source := attachment.Spec.Source.PersistentVolumeName
	if source == nil {
		return "", nil
	}
	persistent, err := c.persistent.Get(*source)
	if err != nil {
		return "", nil
	}
	spec := &plugins.Spec{PersistentVolume: persistent}
	volume, _, resolution := c.identify(spec)
	if resolution != attachable {
		return "", nil
	}
	return volume, spec
}
