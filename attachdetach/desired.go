package attachdetach

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
)

// A desiredStateOfWorld records the managed nodes, the volumes wanted on each, and the pods that
// want them. It belongs to the controller's process.
//
// Differs: upstream finds the volumes of a deleted pod by resolving its claims again. If that
// fails, a periodic pass drops one volume of the pod each minute. Here the volumes of each pod are
// stored and dropped at once.
//
// Upstream: pkg/controller/volume/attachdetach/cache DesiredStateOfWorld (v1.36).
type desiredStateOfWorld struct {
	nodes   map[types.NodeName]*desiredNode
	volumes map[corev1.UniqueVolumeName]map[types.NodeName]*desiredVolume
	pods    map[types.NamespacedName]*desiredPod
}

// A desiredVolume is a volume wanted on a node.
//
// Upstream: pkg/controller/volume/attachdetach/cache VolumeToAttach (v1.36).
type desiredVolume struct {
	Volume corev1.UniqueVolumeName
	Node   types.NodeName
	Spec   *plugins.Spec // read-only

	attacher            plugins.Attacher
	pods                map[types.NamespacedName]*corev1.Pod // never empty
	multiAttachReported bool                                 // the multi-attach event was recorded
}

type desiredNode struct {
	gone    bool // deleted, but still has pods
	volumes int  // number of volumes wanted on it
}

// A desiredPod holds the volumes that a pod wants.
type desiredPod struct {
	uid     types.UID
	node    types.NodeName
	volumes map[string]corev1.UniqueVolumeName // by the pod's name for the volume
}

// A podVolume is a volume of a pod, resolved as far as possible.
type podVolume struct {
	name       string
	resolution resolution
	volume     corev1.UniqueVolumeName // this and the following: only if attachable
	spec       *plugins.Spec
	attacher   plugins.Attacher
}

// A resolution is the result of resolving a pod's volume.
type resolution int

const (
	unresolved    resolution = iota // not yet: the claim is unbound or not in the cache, or no plugin supports it
	notAttachable                   // needs no attach
	attachable
)

func newDesired() *desiredStateOfWorld {
	return &desiredStateOfWorld{
		nodes:   map[types.NodeName]*desiredNode{},
		volumes: map[corev1.UniqueVolumeName]map[types.NodeName]*desiredVolume{},
		pods:    map[types.NamespacedName]*desiredPod{},
	}
}

// Get returns the entry of the volume on the node, or nil.
func (d *desiredStateOfWorld) Get(volume corev1.UniqueVolumeName, node types.NodeName) *desiredVolume {
	return d.volumes[volume][node]
}

// Nodes returns the entries of the volume, sorted by node name.
func (d *desiredStateOfWorld) Nodes(volume corev1.UniqueVolumeName) []*desiredVolume {
	return sortedValues(d.volumes[volume])
}

// Managed reports whether the controller attaches volumes to the node.
func (d *desiredStateOfWorld) Managed(node types.NodeName) bool {
	n, ok := d.nodes[node]
	return ok && !n.gone
}

// Pods returns the pods that want the volume on the node, sorted by namespace and name.
func (w *desiredVolume) Pods() []*corev1.Pod {
	keys := slices.SortedFunc(maps.Keys(w.pods), compareNamespaced)
	pods := make([]*corev1.Pod, len(keys))
	for i, key := range keys {
		pods[i] = w.pods[key]
	}
	return pods
}

// addNode marks the node as managed. It returns whether that is a change.
func (d *desiredStateOfWorld) addNode(node types.NodeName) bool {
	if d.Managed(node) {
		return false
	}
	if n, ok := d.nodes[node]; ok {
		n.gone = false
		return true
	}
	d.nodes[node] = &desiredNode{}
	return true
}

// deleteNode drops a node as soon as no pod wants a volume on it.
//
// Differs: upstream fails while there are volumes, and then never drops the node.
func (d *desiredStateOfWorld) deleteNode(node types.NodeName) {
	if n, ok := d.nodes[node]; ok {
		n.gone = true
		d.releaseNode(node)
	}
}

func (d *desiredStateOfWorld) releaseNode(node types.NodeName) {
	if n := d.nodes[node]; n.gone && n.volumes == 0 {
		delete(d.nodes, node)
	}
}

// setPod replaces the volumes of a pod on a managed node. A volume that cannot be resolved now
// keeps its last resolution. It returns the changed volumes, sorted.
func (d *desiredStateOfWorld) setPod(pod *corev1.Pod, volumes []podVolume) []corev1.UniqueVolumeName {
	key, node := keyOf(pod), types.NodeName(pod.Spec.NodeName)
	var changed []corev1.UniqueVolumeName
	old := d.pods[key]
	if old != nil && (old.uid != pod.UID || old.node != node) {
		changed = d.deletePod(key)
		old = nil
	}
	next := &desiredPod{uid: pod.UID, node: node, volumes: map[string]corev1.UniqueVolumeName{}}
	for _, v := range volumes {
		if v.resolution == attachable {
			next.volumes[v.name] = v.volume
			if d.addPod(pod, v) {
				changed = append(changed, v.volume)
			}
		} else if v.resolution == unresolved && old != nil && old.volumes[v.name] != "" {
			next.volumes[v.name] = old.volumes[v.name]
		}
	}
	changed = append(changed, d.replacePod(key, old, next)...)
	return compact(changed)
}

// addPod adds a pod to a volume on the pod's node. It returns whether the entry is new or its
// volume has changed.
func (d *desiredStateOfWorld) addPod(pod *corev1.Pod, v podVolume) bool {
	node := types.NodeName(pod.Spec.NodeName)
	if d.volumes[v.volume] == nil {
		d.volumes[v.volume] = map[types.NodeName]*desiredVolume{}
	}
	w := d.volumes[v.volume][node]
	changed := w == nil || !sameVolume(w.Spec, v.spec)
	if w == nil {
		w = &desiredVolume{Volume: v.volume, Node: node, pods: map[types.NamespacedName]*corev1.Pod{}}
		d.volumes[v.volume][node] = w
		d.nodes[node].volumes++
	}
	w.Spec, w.attacher = v.spec, v.attacher
	w.pods[keyOf(pod)] = pod
	return changed
}

// replacePod stores the volumes of a pod and removes the pod from all others.
func (d *desiredStateOfWorld) replacePod(key types.NamespacedName, old, next *desiredPod) []corev1.UniqueVolumeName {
	delete(d.pods, key)
	keep := map[corev1.UniqueVolumeName]bool{}
	if next != nil && len(next.volumes) > 0 {
		d.pods[key] = next
		for _, volume := range next.volumes {
			keep[volume] = true
		}
	}
	if old == nil {
		return nil
	}
	var changed []corev1.UniqueVolumeName
	for _, volume := range compact(slices.Collect(maps.Values(old.volumes))) {
		if !keep[volume] && d.removePod(key, volume, old.node) {
			changed = append(changed, volume)
		}
	}
	return changed
}

// deletePod removes a pod. It returns the volumes that are no longer wanted on its node, sorted.
func (d *desiredStateOfWorld) deletePod(key types.NamespacedName) []corev1.UniqueVolumeName {
	return d.replacePod(key, d.pods[key], nil)
}

// dropVolume removes a volume on a node, and all its pods' references to it.
func (d *desiredStateOfWorld) dropVolume(w *desiredVolume) {
	for _, pod := range w.Pods() {
		key := keyOf(pod)
		volumes := d.pods[key].volumes
		maps.DeleteFunc(volumes, func(_ string, volume corev1.UniqueVolumeName) bool { return volume == w.Volume })
		if len(volumes) == 0 {
			delete(d.pods, key)
		}
		d.removePod(key, w.Volume, w.Node)
	}
}

// removePod removes a pod from a volume on a node. It returns whether the pod was the last.
func (d *desiredStateOfWorld) removePod(
	key types.NamespacedName, volume corev1.UniqueVolumeName, node types.NodeName,
) bool {
	w := d.volumes[volume][node]
	delete(w.pods, key)
	if len(w.pods) > 0 {
		return false
	}
	delete(d.volumes[volume], node)
	if len(d.volumes[volume]) == 0 {
		delete(d.volumes, volume)
	}
	d.nodes[node].volumes--
	d.releaseNode(node)
	return true
}

func keyOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

func compareNamespaced(a, b types.NamespacedName) int {
	if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

func compact(volumes []corev1.UniqueVolumeName) []corev1.UniqueVolumeName {
	slices.Sort(volumes)
	return slices.Compact(volumes)
}

// sortedValues returns a map's values in the order of their keys.
func sortedValues[K ~string, V any](m map[K]V) []V {
	if len(m) == 0 {
		return nil
	}
	values := make([]V, 0, len(m))
	if len(m) == 1 {
		for _, value := range m {
			return append(values, value)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		values = append(values, m[key])
	}
	return values
}

// All returns all desired volumes, sorted by volume and node.
func (d *desiredStateOfWorld) All() []*desiredVolume {
	var all []*desiredVolume
	for _, nodes := range sortedValues(d.volumes) {
		all = append(all, sortedValues(nodes)...)
	}
	return all
}
