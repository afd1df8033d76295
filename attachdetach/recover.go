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

// attachmentsByVolume is the index of the VolumeAttachment cache by PersistentVolume.
const attachmentsByVolume = "attachdetach-volume"

var attachmentIndexers = cache.Indexers{
	attachmentsByVolume: func(object any) ([]string, error) {
		return []string{volumeNameOf(object.(*storagev1.VolumeAttachment))}, nil
	},
}

// volumeNameOf returns the name of the PersistentVolume of a VolumeAttachment, or "".
func volumeNameOf(attachment *storagev1.VolumeAttachment) string {
	return ptr.Deref(attachment.Spec.Source.PersistentVolumeName, "")
}

// listRetryDelay is the delay before a failed list request is repeated.
const listRetryDelay = time.Second

// recoverState builds the two models once the caches have synced. Volumes in a node's status are
// attached; other volumes with a VolumeAttachment may be attached; the volumes of pods are wanted.
// All volumes are queued afterwards: unwanted ones are detached, uncertain and wanted ones are
// attached again.
//
// Upstream: pkg/controller/volume/attachdetach populateActualStateOfWorld,
// populateDesiredStateOfWorld (v1.36).
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

// listStored returns the VolumeAttachments and nodes of the API server. It leaves the process. The
// caches' first lists may be stale. A VolumeAttachment that they miss must not be ignored when a
// pod wants the volume on another node. For a volume without PersistentVolume, the node's status is
// the only information left, and it would be overwritten.
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

// retry repeats a request until it succeeds.
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

// recoverNodes reads the reported volumes from the stored nodes. Management comes from the cache,
// which also delivers changes. The newer of both nodes says which volumes are in use.
func (c *Controller) recoverNodes(stored []*corev1.Node) {
	for _, node := range sorted(stored) {
		name := types.NodeName(node.Name)
		for _, attached := range node.Status.VolumesAttached {
			c.actual.markAttached(attached.Name, name, nil, attached.DevicePath)
			c.scheduleVerify(attached.Name)
		}
		c.actual.setInUse(name, node.ResourceVersion, node.Status.VolumesInUse)
	}
	for _, node := range sorted(list(c.nodes.List)) {
		name := types.NodeName(node.Name)
		c.actual.setInUse(name, node.ResourceVersion, node.Status.VolumesInUse)
		if _, ok := node.Annotations[ManagedAnnotation]; ok {
			c.desired.addNode(name)
		}
	}
}

// recoverAttachment records the volume of a VolumeAttachment as uncertain unless it is known to be
// attached. It returns whether the volume could be resolved.
//
// Differs: upstream does not learn the spec of an attached volume from it. Upstream also detaches,
// eventually, what kubelets that attach themselves have attached.
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

// kubeletAttaches reports whether the node's kubelet, and not this controller, attaches its
// volumes.
func (c *Controller) kubeletAttaches(name string) bool {
	node, err := c.nodes.Get(name)
	if err != nil {
		return false // deleted or new
	}
	_, managed := node.Annotations[ManagedAnnotation]
	return !managed
}

// assumeInUse marks everything attached to missing nodes as in use. Their status cannot be read,
// and the previous controller may have known that they use it. The unmount timeout applies as if
// that controller still ran.
//
// Upstream: pkg/controller/volume/attachdetach/cache AddVolumeNode (v1.36).
func (c *Controller) assumeInUse() {
	for node, attachments := range c.actual.nodes { // independent of each other: any order
		if _, err := c.nodes.Get(string(node)); err == nil {
			continue
		}
		c.actual.setInUse(node, "", slices.Collect(maps.Keys(attachments)))
	}
}

// persistentVolumeAdded processes the VolumeAttachments of a volume that the cache did not have:
// those in the cache now, and those that existed at the start.
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

// volumeOfAttachment returns the volume of a VolumeAttachment. The spec is nil if its
// PersistentVolume does not exist.
//
// Differs: upstream ignores VolumeAttachments of drivers that no longer need attaching, and never
// detaches them.
func (c *Controller) volumeOfAttachment(
	attachment *storagev1.VolumeAttachment,
) (corev1.UniqueVolumeName, *plugins.Spec) {
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
