package attachdetach

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/resourceversion"
	"github.com/volsim/volsim/plugins"
)

// An attachState is the state of a volume on a node.
//
// Upstream: pkg/controller/volume/attachdetach/cache AttachState (v1.36).
type attachState int

// The states of a volume on a node.
const (
	stateDetached  attachState = iota // not attached; there is no attachedVolume
	stateUncertain                    // an operation failed but may have had its effect, or the controller restarted
	stateAttached                     // it is
)

// String returns the name of the state.
func (s attachState) String() string { return [...]string{"Detached", "Uncertain", "Attached"}[s] }

// An actualStateOfWorld records where volumes are or may be attached, and which of them the nodes
// use. It belongs to the controller's process.
//
// Differs: upstream stores spec and device path once for a volume, and the last node overwrites
// them; here each attachment has its own. Upstream assumes that a new attachment is in use until
// the node's status is next written. After a failed attach that may never happen. Here only the
// node's status counts, except at the start for nodes that do not exist (see assumeInUse). This is
// safe: a kubelet writes volumesInUse before it reads volumesAttached and mounts. This controller
// writes volumesAttached before it reads volumesInUse and detaches. One of the two therefore sees
// the other's write.
//
// Upstream: pkg/controller/volume/attachdetach/cache ActualStateOfWorld (v1.36).
type actualStateOfWorld struct {
	volumes map[corev1.UniqueVolumeName]map[types.NodeName]*attachedVolume
	nodes   map[types.NodeName]map[corev1.UniqueVolumeName]*attachedVolume // the same values
	inUse   map[types.NodeName]volumesInUse
}

// volumesInUse is the newest node.status.volumesInUse that was seen of a node.
type volumesInUse struct {
	version string // the Node's resourceVersion; "": assumed, not read
	volumes map[corev1.UniqueVolumeName]struct{}
}

// An attachedVolume is a volume that is, or may be, attached to a node.
//
// Upstream: pkg/controller/volume/attachdetach/cache AttachedVolume (v1.36).
type attachedVolume struct {
	Volume          corev1.UniqueVolumeName
	Node            types.NodeName
	State           attachState   // stateAttached or stateUncertain
	Spec            *plugins.Spec // read-only; nil if only the name is known, after a restart
	DevicePath      string        // as returned by the plugin; empty while uncertain
	Reported        bool          // listed in node.status.volumesAttached; only if attached
	DetachRequested time.Time     // start of the unmount timeout; zero while wanted
	DetachTried     time.Time     // start of the last detach
}

func newActual() *actualStateOfWorld {
	return &actualStateOfWorld{
		volumes: map[corev1.UniqueVolumeName]map[types.NodeName]*attachedVolume{},
		nodes:   map[types.NodeName]map[corev1.UniqueVolumeName]*attachedVolume{},
		inUse:   map[types.NodeName]volumesInUse{},
	}
}

// State returns the state of the volume on the node.
func (w *actualStateOfWorld) State(volume corev1.UniqueVolumeName, node types.NodeName) attachState {
	if a := w.get(volume, node); a != nil {
		return a.State
	}
	return stateDetached
}

// Attachments returns the attachments of the volume, sorted by node name.
func (w *actualStateOfWorld) Attachments(volume corev1.UniqueVolumeName) []*attachedVolume {
	return sortedValues(w.volumes[volume])
}

// OnNode returns the attachments to the node, sorted by volume name.
func (w *actualStateOfWorld) OnNode(node types.NodeName) []*attachedVolume {
	return sortedValues(w.nodes[node])
}

// InUse reports whether the node's status lists the volume as in use.
func (w *actualStateOfWorld) InUse(volume corev1.UniqueVolumeName, node types.NodeName) bool {
	_, ok := w.inUse[node].volumes[volume]
	return ok
}

// reportedVolumes returns the content of node.status.volumesAttached, sorted by volume name.
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
	a := &attachedVolume{Volume: volume, Node: node, State: stateUncertain}
	w.volumes[volume][node], w.nodes[node][volume] = a, a
	return a
}

// markAttached records that the volume is attached, and reports it to the node.
func (w *actualStateOfWorld) markAttached(
	volume corev1.UniqueVolumeName, node types.NodeName, spec *plugins.Spec, devicePath string,
) {
	a := w.ensure(volume, node)
	a.State, a.DevicePath, a.Reported = stateAttached, devicePath, true
	a.setSpec(spec)
}

// addUncertain records that the volume may be attached. An attached one stays attached.
func (w *actualStateOfWorld) addUncertain(volume corev1.UniqueVolumeName, node types.NodeName, spec *plugins.Spec) {
	w.ensure(volume, node).setSpec(spec)
}

// markUncertain records that the state of the volume is unknown. It is no longer reported.
func (w *actualStateOfWorld) markUncertain(volume corev1.UniqueVolumeName, node types.NodeName) {
	a := w.ensure(volume, node)
	a.State, a.DevicePath, a.Reported = stateUncertain, "", false
}

// markDetached records that the volume is not attached.
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

// setSpec stores the spec if it is not nil.
func (a *attachedVolume) setSpec(spec *plugins.Spec) {
	if spec != nil {
		a.Spec = spec
	}
}

// markReported reports an attached volume to the node again. It returns whether that is a change.
//
// Differs: upstream reports an uncertain attachment again when it could not remove it from the
// node's status.
func (a *attachedVolume) markReported() bool {
	if a.State != stateAttached || a.Reported {
		return false
	}
	a.Reported = true
	return true
}

// setInUse stores node.status.volumesInUse of a version of a Node. It returns the node's attachments
// whose use changed. A version older than the stored one changes nothing: the response to a read may
// arrive after the watch has delivered a later change.
func (w *actualStateOfWorld) setInUse(
	node types.NodeName, version string, volumes []corev1.UniqueVolumeName,
) []*attachedVolume {
	before := w.inUse[node]
	if order, err := resourceversion.Compare(version, before.version); err == nil && order < 0 {
		return nil
	}
	now := make(map[corev1.UniqueVolumeName]struct{}, len(volumes))
	for _, volume := range volumes {
		now[volume] = struct{}{}
	}
	w.inUse[node] = volumesInUse{version, now}
	var changed []*attachedVolume
	for _, a := range w.OnNode(node) {
		_, wasInUse := before.volumes[a.Volume]
		if _, isInUse := now[a.Volume]; isInUse != wasInUse {
			changed = append(changed, a)
		}
	}
	return changed
}

// forgetNode drops the volumes in use of a deleted node once nothing is attached to it.
func (w *actualStateOfWorld) forgetNode(node types.NodeName) {
	if len(w.nodes[node]) == 0 {
		delete(w.inUse, node)
	}
}

// String returns the attachment in one line.
func (a *attachedVolume) String() string {
	reported := ""
	if a.Reported {
		reported = ", reported"
	}
	return fmt.Sprintf("%s on %s: %s%s", a.Volume, a.Node, a.State, reported)
}

// All returns all attachments, sorted by volume and node.
func (w *actualStateOfWorld) All() []*attachedVolume {
	var all []*attachedVolume
	for _, nodes := range sortedValues(w.volumes) {
		all = append(all, sortedValues(nodes)...)
	}
	return all
}
