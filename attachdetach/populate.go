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

// podsByNode is the index of the pod cache by node. The cache also has podclaims.Index.
const podsByNode = "attachdetach-node"

var podIndexers = cache.Indexers{
	podsByNode: func(object any) ([]string, error) { return []string{object.(*corev1.Pod).Spec.NodeName}, nil },
}

// podChanged updates the volumes that a pod wants.
//
// Upstream: pkg/controller/volume/attachdetach podAdd, podUpdate, and util ProcessPodVolumes
// (v1.36).
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

// claimChanged re-examines the pods that use a claim.
//
// Upstream: pkg/controller/volume/attachdetach syncPVCByKey (v1.36).
func (c *Controller) claimChanged(namespace, name string) {
	c.populateBy(podclaims.Index, namespace+"/"+name)
}

// persistentVolumeChanged re-examines the pods of the claim to which the volume is bound. For a new
// volume (old is nil) it first processes its VolumeAttachments, which could not be resolved before.
func (c *Controller) persistentVolumeChanged(old, volume *corev1.PersistentVolume) {
	if old == nil {
		c.persistentVolumeAdded(volume)
	}
	if ref := volume.Spec.ClaimRef; ref != nil {
		c.claimChanged(ref.Namespace, ref.Name)
	}
}

// driversChanged re-examines all volumes, since a driver may no longer need attaching. Desired
// volumes are judged by their stored spec, because their claim or node may be gone.
//
// Upstream: pkg/controller/volume/attachdetach/populator findAndRemoveDeletedPods, its second half
// (v1.36).
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

// pluginsChanged re-examines all pods, whose volumes may have gained or changed a plugin. It also
// schedules the verification of attachments whose plugin was missing.
func (c *Controller) pluginsChanged() {
	if !c.recovered {
		return
	}
	c.populateAll()
	for _, a := range c.actual.All() {
		c.scheduleVerify(a.Volume)
	}
}

// populateNode re-examines the pods of a node.
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

// volumesOf resolves the volumes of a pod.
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

// identify returns the unique name and the attacher of a volume. A missing plugin may return, so
// its volumes stay wanted.
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

// specOf returns the volume behind a pod's volume. It fails if the claim does not exist or is not
// bound, or if the volume is not bound to the claim.
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

// setMissingSpecs sets the specs of attachments of which only the name is known after a restart.
func (c *Controller) setMissingSpecs(node types.NodeName, volumes []podVolume) {
	for _, v := range volumes {
		if a := c.actual.get(v.volume, node); a != nil && a.Spec == nil {
			a.setSpec(v.spec)
		}
	}
}

// isReplaced reports whether the pod stored under key has another UID.
func (d *desiredStateOfWorld) isReplaced(key types.NamespacedName, uid types.UID) bool {
	stored, ok := d.pods[key]
	return ok && stored.uid != uid
}

// list returns all objects of a lister. A lister over a cache does not fail.
func list[T any](from func(labels.Selector) ([]T, error)) []T {
	objects, err := from(labels.Everything())
	if err != nil {
		panic("attachdetach: list: " + err.Error())
	}
	return objects
}
