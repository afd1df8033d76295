package attachdetach

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/ephemeral"

	"github.com/volsim/volsim/internal/podclaims"
	"github.com/volsim/volsim/plugins"
)

// podsByNode is the index of the cache of pods by node; it has podclaims.Index besides.
const podsByNode = "attachdetach-node"

var podIndexers = cache.Indexers{
	podsByNode: func(object any) ([]string, error) { return []string{object.(*corev1.Pod).Spec.NodeName}, nil },
}

// podChanged takes in what a pod wants.
//
// Upstream: pkg/controller/volume/attachdetach podAdd, podUpdate, and util ProcessPodVolumes (v1.36).
func (c *Controller) podChanged(pod *corev1.Pod) {
	key, node := keyOf(pod), types.NodeName(pod.Spec.NodeName)
	switch {
	case node == "" || podclaims.Terminated(pod):
		c.enqueue(c.desired.deletePod(key))
	case c.desired.Managed(node):
		volumes := c.volumesOf(pod)
		c.enqueue(c.desired.setPod(pod, volumes))
		c.setMissingSpecs(node, volumes)
	case c.desired.isReplaced(key, pod.UID):
		c.enqueue(c.desired.deletePod(key))
	}
}

func (c *Controller) podDeleted(pod *corev1.Pod) { c.enqueue(c.desired.deletePod(keyOf(pod))) }

// claimChanged looks again at the pods that use a claim.
//
// Upstream: pkg/controller/volume/attachdetach syncPVCByKey (v1.36).
func (c *Controller) claimChanged(namespace, name string) {
	c.populateBy(podclaims.Index, namespace+"/"+name)
}

// persistentVolumeChanged looks again at the pods whose claim the volume is bound to; if it is new, old being nil, at its
// VolumeAttachments first, which told nothing without it.
func (c *Controller) persistentVolumeChanged(old, volume *corev1.PersistentVolume) {
	if old == nil {
		c.persistentVolumeAdded(volume)
	}
	if ref := volume.Spec.ClaimRef; ref != nil {
		c.claimChanged(ref.Namespace, ref.Name)
	}
}

// driversChanged looks again at all volumes: whether they are attached at all may have changed. Those that a pod has come to
// want are looked at as they were then, as its claim or its node may be gone by now.
//
// Upstream: pkg/controller/volume/attachdetach/populator findAndRemoveDeletedPods, its second half (v1.36).
func (c *Controller) driversChanged() {
	for _, volumes := range sortedValues(c.desired.volumes) {
		for _, d := range sortedValues(volumes) {
			if _, _, resolution := c.identify(d.Spec); resolution == notAttachable {
				c.desired.dropVolume(d)
				c.volumes.Add(d.Volume)
			}
		}
	}
	c.populateAll()
}

// pluginsChanged looks again at all pods, whose volumes may be attached by another plugin now, or by one at last; and asks for
// attachments that one that was away could not be asked for.
func (c *Controller) pluginsChanged() {
	if !c.recovered {
		return
	}
	c.populateAll()
	for _, a := range c.actual.All() {
		c.scheduleVerify(a.Volume)
	}
}

// populateNode looks again at the pods of a node.
func (c *Controller) populateNode(node types.NodeName) { c.populateBy(podsByNode, string(node)) }

func (c *Controller) populateBy(index, value string) {
	objects, err := c.podIndexer.ByIndex(index, value)
	if err != nil {
		panic("attachdetach: " + err.Error())
	}
	pods := make([]*corev1.Pod, len(objects))
	for i, object := range objects {
		pods[i] = object.(*corev1.Pod)
	}
	for _, pod := range sorted(pods) {
		c.podChanged(pod)
	}
}

func (c *Controller) populateAll() {
	for _, pod := range sorted(list(c.pods.List)) {
		c.podChanged(pod)
	}
}

// volumesOf makes out the volumes of a pod.
func (c *Controller) volumesOf(pod *corev1.Pod) []podVolume {
	volumes := make([]podVolume, len(pod.Spec.Volumes))
	for i := range pod.Spec.Volumes {
		volumes[i] = c.volumeOf(pod, &pod.Spec.Volumes[i])
	}
	return volumes
}

func (c *Controller) volumeOf(pod *corev1.Pod, volume *corev1.Volume) podVolume {
	v := podVolume{name: volume.Name}
	spec, err := c.specOf(pod, volume)
	if err == nil {
		spec, err = migrated.Translate(spec, pod.Namespace)
	}
	if err != nil {
		return v
	}
	v.spec = spec
	v.volume, v.attacher, v.resolution = c.identify(spec)
	return v
}

// identify finds the unique name of a volume and who attaches it. A plugin that is not there may be on its way back: what was
// wanted of it stays wanted.
func (c *Controller) identify(spec *plugins.Spec) (corev1.UniqueVolumeName, plugins.Attacher, resolution) {
	plugin, err := c.cfg.Plugins.FindBySpec(spec)
	if err != nil {
		return "", nil, unresolved
	}
	can, err := plugin.Attachable(spec)
	if err != nil {
		return "", nil, unresolved
	}
	if !can {
		return "", nil, notAttachable
	}
	name, err := plugin.VolumeName(spec)
	if err != nil {
		return "", nil, unresolved
	}
	return plugins.UniqueVolumeName(plugin.Name(), name), plugin.Attacher, attachable
}

// specOf is the volume behind a pod's volume. It fails while the claim is not there, not bound, or bound to a volume that
// is not bound to it.
//
// Upstream: pkg/controller/volume/attachdetach/util createInTreeVolumeSpec (v1.36).
func (c *Controller) specOf(pod *corev1.Pod, volume *corev1.Volume) (*plugins.Spec, error) {
	name := podclaims.Name(pod, volume)
	if name == "" {
		return &plugins.Spec{Volume: volume}, nil
	}
	claim, err := c.claims.PersistentVolumeClaims(pod.Namespace).Get(name)
	if err != nil {
		return nil, err
	}
	if volume.Ephemeral != nil {
		if err := ephemeral.VolumeIsForPod(pod, claim); err != nil {
			return nil, err
		}
	}
	if claim.Status.Phase != corev1.ClaimBound || claim.Spec.VolumeName == "" {
		return nil, fmt.Errorf("claim %s/%s is not bound", claim.Namespace, claim.Name)
	}
	persistent, err := c.persistent.Get(claim.Spec.VolumeName)
	if err != nil {
		return nil, err
	}
	if ref := persistent.Spec.ClaimRef; ref == nil || ref.UID != claim.UID {
		return nil, fmt.Errorf("volume %s is not bound to claim %s/%s", persistent.Name, claim.Namespace, claim.Name)
	}
	readOnly := volume.PersistentVolumeClaim != nil && volume.PersistentVolumeClaim.ReadOnly
	return &plugins.Spec{PersistentVolume: persistent, ReadOnly: readOnly}, nil
}

// setMissingSpecs tells the attachments of which only the name is known, after a restart, what they are.
func (c *Controller) setMissingSpecs(node types.NodeName, volumes []podVolume) {
	for _, v := range volumes {
		if a := c.actual.get(v.volume, node); a != nil && a.Spec == nil {
			a.setSpec(v.spec)
		}
	}
}

// isReplaced tells whether the pod of that name that is known is another one.
func (d *desiredStateOfWorld) isReplaced(key types.NamespacedName, uid types.UID) bool {
	known, ok := d.pods[key]
	return ok && known.uid != uid
}

// list is all that a lister has; one over a cache does not fail.
func list[T any](from func(labels.Selector) ([]T, error)) []T {
	objects, err := from(labels.Everything())
	if err != nil {
		panic("attachdetach: list: " + err.Error())
	}
	return objects
}
