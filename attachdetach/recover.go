package attachdetach

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/plugins"
)

// attachmentsByVolume is the index of the cache of VolumeAttachments by PersistentVolume.
const attachmentsByVolume = "attachdetach-volume"

var attachmentIndexers = cache.Indexers{
	attachmentsByVolume: func(object any) ([]string, error) {
		return []string{volumeNameOf(object.(*storagev1.VolumeAttachment))}, nil
	},
}

// volumeNameOf is the name of the PersistentVolume of a VolumeAttachment, or "".
func volumeNameOf(attachment *storagev1.VolumeAttachment) string {
	return ptr.Deref(attachment.Spec.Source.PersistentVolumeName, "")
}

// listRetryDelay is after how long a list is asked for again that the API server did not give.
const listRetryDelay = time.Second

// recoverState draws the two pictures when the caches are full: what the nodes are told is attached; what has a VolumeAttachment
// object besides may be; what the pods want is wanted. All volumes are looked at afterwards: what nobody wants any more is
// detached, what is uncertain and wanted is attached again.
//
// Upstream: pkg/controller/volume/attachdetach populateActualStateOfWorld, populateDesiredStateOfWorld (v1.36).
func (c *Controller) recoverState(ctx context.Context) {
	attachments, nodes := c.listStored(ctx)
	c.recovered = true
	c.recoverNodes(nodes)
	seen := map[types.UID]bool{} // most are in both lists
	for _, attachment := range append(sorted(list(c.attachments.List)), attachments...) {
		if seen[attachment.UID] {
			continue
		}
		seen[attachment.UID] = true
		if !c.recoverAttachment(attachment) {
			c.unresolved = append(c.unresolved, attachment)
		}
	}
	c.assumeInUse()
	for _, a := range c.actual.All() {
		c.recheck(a)
	}
	c.populateAll()
	for _, volumes := range sortedValues(c.actual.volumes) {
		c.enqueueAttachments(sortedValues(volumes))
	}
}

// listStored are the VolumeAttachments and the nodes that there are. It leaves the component: the first lists in the caches may be
// old. An attachment that they do not show must not be passed over when a pod wants the volume on another node; and what nodes
// are told is all that is known of a volume whose PersistentVolume is gone, and would be written over.
//
// Differs: upstream trusts its caches (I16b).
func (c *Controller) listStored(ctx context.Context) ([]*storagev1.VolumeAttachment, []*corev1.Node) {
	var attachments *storagev1.VolumeAttachmentList
	c.retry(ctx, "list VolumeAttachments", func() (err error) {
		attachments, err = c.cfg.Client.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
		return err
	})
	var nodes *corev1.NodeList
	c.retry(ctx, "list nodes", func() (err error) {
		nodes, err = c.cfg.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		return err
	})
	return pointers(attachments.Items), pointers(nodes.Items)
}

// retry makes a request until it is answered.
func (c *Controller) retry(ctx context.Context, what string, request func() error) {
	for err := request(); err != nil; err = request() {
		logr.FromContextOrDiscard(ctx).Error(err, what)
		c.cfg.Process.Sleep(listRetryDelay)
	}
}

func pointers[T any](items []T) []*T {
	all := make([]*T, len(items))
	for i := range items {
		all[i] = &items[i]
	}
	return all
}

// recoverNodes takes what nodes are told from those that there are. Whether they are managed and what they use comes from the
// cache, which tells of changes; what a node uses that it does not show yet comes from the node itself.
func (c *Controller) recoverNodes(stored []*corev1.Node) {
	for _, node := range sorted(stored) {
		name := types.NodeName(node.Name)
		for _, attached := range node.Status.VolumesAttached {
			c.actual.markAttached(attached.Name, name, nil, attached.DevicePath)
			c.scheduleVerify(attached.Name)
		}
		c.actual.setInUse(name, node.Status.VolumesInUse)
	}
	for _, node := range sorted(list(c.nodes.List)) {
		name := types.NodeName(node.Name)
		c.actual.setInUse(name, node.Status.VolumesInUse)
		if _, ok := node.Annotations[ManagedAnnotation]; ok {
			c.desired.addNode(name)
		}
	}
}

// recoverAttachment takes a VolumeAttachment for a sign that the volume may be attached, unless it is known to be. It returns
// whether the volume is known.
//
// Differs: upstream does not learn from it what a volume is that is known to be attached; and it detaches, sooner or later, what
// kubelets have attached that do so themselves.
//
// Upstream: pkg/controller/volume/attachdetach processVolumeAttachments (v1.36).
func (c *Controller) recoverAttachment(attachment *storagev1.VolumeAttachment) bool {
	if c.kubeletAttaches(attachment.Spec.NodeName) {
		return true
	}
	volume, spec := c.volumeOfAttachment(attachment)
	if spec != nil {
		c.actual.addUncertain(volume, types.NodeName(attachment.Spec.NodeName), spec)
	}
	return spec != nil
}

// kubeletAttaches tells whether the kubelet of a node attaches volumes, and not this controller.
func (c *Controller) kubeletAttaches(name string) bool {
	node, err := c.nodes.Get(name)
	if err != nil {
		return false // it is gone, or new
	}
	_, managed := node.Annotations[ManagedAnnotation]
	return !managed
}

// assumeInUse takes what is or may be attached to nodes that are not there for in use by them: they cannot be asked, and the
// controller that was here before may have known that they use it. They are given six minutes, as if it were here still.
//
// Upstream: pkg/controller/volume/attachdetach/cache AddVolumeNode (v1.36).
func (c *Controller) assumeInUse() {
	for node, attachments := range c.actual.nodes { // each is for itself: no order
		if _, err := c.nodes.Get(string(node)); err == nil {
			continue
		}
		c.actual.setInUse(node, slices.Collect(maps.Keys(attachments)))
	}
}

// persistentVolumeAdded looks at the VolumeAttachments of a volume that the cache did not have: those that it shows by now, and
// those that were there when the controller started.
func (c *Controller) persistentVolumeAdded(volume *corev1.PersistentVolume) {
	shown, err := c.attachmentIndexer.ByIndex(attachmentsByVolume, volume.Name)
	if err != nil {
		panic("attachdetach: " + err.Error())
	}
	attachments := make([]*storagev1.VolumeAttachment, len(shown))
	for i, object := range shown {
		attachments[i] = object.(*storagev1.VolumeAttachment)
	}
	isOf := func(attachment *storagev1.VolumeAttachment) bool { return volumeNameOf(attachment) == volume.Name }
	for _, attachment := range append(sorted(attachments), c.unresolved...) {
		if isOf(attachment) {
			c.attachmentChanged(attachment)
		}
	}
	c.unresolved = slices.DeleteFunc(c.unresolved, isOf)
}

// volumeOfAttachment is the volume of a VolumeAttachment. One whose PersistentVolume is gone tells nothing: then the spec is
// nil.
//
// Differs: upstream passes over those whose driver says that its volumes need no attaching any more, and never detaches them.
func (c *Controller) volumeOfAttachment(attachment *storagev1.VolumeAttachment) (corev1.UniqueVolumeName, *plugins.Spec) {
	spec := c.specOfAttachment(attachment)
	if spec == nil {
		return "", nil
	}
	plugin, err := c.cfg.Plugins.FindBySpec(spec)
	if err != nil || plugin.Attacher == nil {
		return "", nil
	}
	name, err := plugin.VolumeName(spec)
	if err != nil {
		return "", nil
	}
	return plugins.UniqueVolumeName(plugin.Name(), name), spec
}
