package attachdetach

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
)

// attachState tells whether a volume is attached to a node.
//
// Upstream: pkg/controller/volume/attachdetach/cache AttachState (v1.36).
type attachState int

// The states of a volume on a node.
const (
	stateDetached attachState = iota // it is not; there is no Attachment
	Uncertain                        // an attach or a detach failed and may have happened, or the controller was restarted meanwhile
	Attached                         // it is
)

// String gives the state as a word.
func (s attachState) String() string { return [...]string{"Detached", "Uncertain", "Attached"}[s] }

// actualStateOfWorld is what the attach/detach controller believes: where volumes are attached, for certain or perhaps,
// and which of them the nodes use. It belongs to the controller's component.
//
// Differs: upstream keeps spec and device path once for a volume, overwritten by whatever node came last; here each
// attachment has its own. Upstream assumes a new attachment to be in use until the node's status is next written, which
// after a failed attach may be never; here only the node's status counts, but at a start, where the node is not there
// (assumeInUse). That is safe, since a kubelet writes volumesInUse before it reads volumesAttached and mounts, and this
// controller writes volumesAttached before it reads volumesInUse and detaches: one of the two sees the other.
//
// Upstream: pkg/controller/volume/attachdetach/cache ActualStateOfWorld (v1.36).
type actualStateOfWorld struct {
	volumes map[corev1.UniqueVolumeName]map[types.NodeName]*attachedVolume
	nodes   map[types.NodeName]map[corev1.UniqueVolumeName]*attachedVolume // the same ones
	inUse   map[types.NodeName]map[corev1.UniqueVolumeName]struct{}        // as node.status.volumesInUse had it last
}

// attachedVolume is a volume that is, or may be, attached to a node.
//
// Upstream: pkg/controller/volume/attachdetach/cache AttachedVolume (v1.36).
type attachedVolume struct {
	Volume          corev1.UniqueVolumeName
	Node            types.NodeName
	State           attachState   // Attached or Uncertain
	Spec            *plugins.Spec // read-only; nil when only the name is known, after a restart
	DevicePath      string        // as the plugin returned it; empty while Uncertain
	Reported        bool          // it is to stand in node.status.volumesAttached; only if Attached
	DetachRequested time.Time     // when it was first not wanted any more; zero while it is wanted
	DetachTried     time.Time     // when a detach was last started
}

func newActual() *actualStateOfWorld {
	return &actualStateOfWorld{
		volumes: map[corev1.UniqueVolumeName]map[types.NodeName]*attachedVolume{},
		nodes:   map[types.NodeName]map[corev1.UniqueVolumeName]*attachedVolume{},
		inUse:   map[types.NodeName]map[corev1.UniqueVolumeName]struct{}{},
	}
}

// State tells whether the volume is attached to the node.
func (w *actualStateOfWorld) State(volume corev1.UniqueVolumeName, node types.NodeName) attachState {
	if a := w.get(volume, node); a != nil {
		return a.State
	}
	return stateDetached
}

// Attachments returns where the volume is attached, by node name.
func (w *actualStateOfWorld) Attachments(volume corev1.UniqueVolumeName) []*attachedVolume {
	return sortedValues(w.volumes[volume])
}

// OnNode returns what is attached to the node, by volume name.
func (w *actualStateOfWorld) OnNode(node types.NodeName) []*attachedVolume {
	return sortedValues(w.nodes[node])
}

// InUse tells whether the node says that it uses the volume.
func (w *actualStateOfWorld) InUse(volume corev1.UniqueVolumeName, node types.NodeName) bool {
	_, ok := w.inUse[node][volume]
	return ok
}

// reportedVolumes is what is to stand in node.status.volumesAttached, by volume name.
func (w *actualStateOfWorld) reportedVolumes(node types.NodeName) []corev1.AttachedVolume {
	var list []corev1.AttachedVolume
	for _, a := range w.OnNode(node) {
		if a.Reported {
			list = append(list, corev1.AttachedVolume{Name: a.Volume, DevicePath: a.DevicePath})
		}
	}
	return list
}

func (w *actualStateOfWorld) get(volume corev1.UniqueVolumeName, node types.NodeName) *attachedVolume {
	return w.volumes[volume][node]
}

func (w *actualStateOfWorld) ensure(volume corev1.UniqueVolumeName, node types.NodeName) *attachedVolume {
	if a := w.get(volume, node); a != nil {
		return a
	}
	if w.volumes[volume] == nil {
		w.volumes[volume] = map[types.NodeName]*attachedVolume{}
	}
	if w.nodes[node] == nil {
		w.nodes[node] = map[corev1.UniqueVolumeName]*attachedVolume{}
	}
	a := &attachedVolume{Volume: volume, Node: node, State: Uncertain}
	w.volumes[volume][node], w.nodes[node][volume] = a, a
	return a
}

// markAttached takes in that the volume is attached, and lets it be reported.
func (w *actualStateOfWorld) markAttached(volume corev1.UniqueVolumeName, node types.NodeName, spec *plugins.Spec, devicePath string) {
	a := w.ensure(volume, node)
	a.State, a.DevicePath, a.Reported = Attached, devicePath, true
	a.setSpec(spec)
}

// addUncertain takes in that the volume may be attached. One that is Attached stays so.
func (w *actualStateOfWorld) addUncertain(volume corev1.UniqueVolumeName, node types.NodeName, spec *plugins.Spec) {
	w.ensure(volume, node).setSpec(spec)
}

// markUncertain takes in that nobody knows any more whether the volume is attached. It is not reported.
func (w *actualStateOfWorld) markUncertain(volume corev1.UniqueVolumeName, node types.NodeName) {
	a := w.ensure(volume, node)
	a.State, a.DevicePath, a.Reported = Uncertain, "", false
}

// markDetached takes in that the volume is not attached.
func (w *actualStateOfWorld) markDetached(volume corev1.UniqueVolumeName, node types.NodeName) {
	delete(w.volumes[volume], node)
	delete(w.nodes[node], volume)
	if len(w.volumes[volume]) == 0 {
		delete(w.volumes, volume)
	}
	if len(w.nodes[node]) == 0 {
		delete(w.nodes, node)
	}
}

// setSpec keeps the spec, unless there is none to keep.
func (a *attachedVolume) setSpec(spec *plugins.Spec) {
	if spec != nil {
		a.Spec = spec
	}
}

// markReported lets the attachment stand in the node's status again, if it is certain. It returns whether that is a change.
//
// Differs: upstream reports an uncertain attachment again when it could not tell the node that it is none.
func (a *attachedVolume) markReported() bool {
	if a.State != Attached || a.Reported {
		return false
	}
	a.Reported = true
	return true
}

// setInUse takes in node.status.volumesInUse. It returns the attachments of the node of which that changed.
func (w *actualStateOfWorld) setInUse(node types.NodeName, volumes []corev1.UniqueVolumeName) []*attachedVolume {
	now := make(map[corev1.UniqueVolumeName]struct{}, len(volumes))
	for _, volume := range volumes {
		now[volume] = struct{}{}
	}
	before := w.inUse[node]
	w.inUse[node] = now
	var changed []*attachedVolume
	for _, a := range w.OnNode(node) {
		_, was := before[a.Volume]
		if _, is := now[a.Volume]; is != was {
			changed = append(changed, a)
		}
	}
	return changed
}

// forgetNode drops what a node that is gone said it uses, once nothing is attached to it.
func (w *actualStateOfWorld) forgetNode(node types.NodeName) {
	if len(w.nodes[node]) == 0 {
		delete(w.inUse, node)
	}
}

// String gives the attachment in a few words.
func (a *attachedVolume) String() string {
	reported := ""
	if a.Reported {
		reported = ", reported"
	}
	return fmt.Sprintf("%s on %s: %s%s", a.Volume, a.Node, a.State, reported)
}
