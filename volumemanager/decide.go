package volumemanager

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A verdict is the next action for a volume.
type verdict int

const (
	nothing       verdict = iota // desired is actual
	hold                         // until the needs of all pods of this node are known
	unmount                      // from a pod that does not want it
	awaitReport                  // in volumesInUse, which the kubelet will patch
	awaitAttached                // in volumesAttached, as the attach/detach controller reports it
	attach                       // to this node, by the kubelet itself
	markAttached                 // record that it is attached
	mount                        // for a pod, or map it
	remount                      // set it up again for a pod that has it mounted
	expand                       // expand it where a pod has it mounted
	unmountDevice                // no pod uses it
	detach                       // from this node, by the kubelet itself
	forget                       // nothing of it is here: it may be detached
)

// String returns the verdict in words.
func (v verdict) String() string {
	return [...]string{
		"nothing", "hold", "unmount", "await report in volumesInUse", "await volumesAttached",
		"attach", "note attached", "mount",
		"mount again", "expand", "unmount device", "detach", "forget",
	}[v]
}

// A step is a verdict and, for unmount, mount, remount and expand, the pod.
type step struct {
	verdict verdict
	pod     types.UID
}

// A situation is what a decision about a volume depends on besides the two states.
type situation struct {
	attached   bool                 // the Node lists the volume as attached, and is current
	ready      bool                 // what an earlier kubelet left may be cleaned up; see ready.go
	byKubelet  bool                 // the kubelet attaches and detaches, not the controller
	incomplete func(types.UID) bool // reports whether the needs of a pod are not yet known
}

// decide returns what to do about a volume: every unmount that is due, and at most one other
// action. wanted and actual may be nil.
//
// Upstream: pkg/kubelet/volumemanager/reconciler reconcile, for one volume (v1.36).
func decide(wanted *desiredVolume, actual *actualVolume, is situation) []step {
	var steps []step
	relabel := actual.mislabelled(wanted)
	if actual != nil && is.ready {
		for pod := range actual.pods {
			if (wanted == nil || !wanted.wantedBy(pod) || relabel) && !is.incomplete(pod) {
				steps = append(steps, step{unmount, pod})
			}
		}
		slices.SortFunc(steps, func(a, b step) int { return cmp.Compare(a.pod, b.pod) })
	}
	switch {
	case wanted != nil && !relabel:
		return append(steps, decideWanted(wanted, actual, is))
	case actual == nil:
		return append(steps, step{verdict: forget}) // it may have been reported in use
	case len(actual.pods) > 0:
		return steps
	case !is.ready:
		return append(steps, step{verdict: hold})
	case actual.device != notMounted:
		return append(steps, step{verdict: unmountDevice})
	case is.byKubelet && actual.attachable:
		return append(steps, step{verdict: detach})
	default:
		return append(steps, step{verdict: forget})
	}
}

func decideWanted(wanted *desiredVolume, actual *actualVolume, is situation) step {
	switch {
	case actual != nil && !actual.reconstructed && !actual.attaching:
	case !wanted.attachable, !is.byKubelet && wanted.reported && is.attached:
		return step{verdict: markAttached}
	case is.byKubelet:
		return step{verdict: attach}
	case !wanted.reported:
		return step{verdict: awaitReport}
	default:
		return step{verdict: awaitAttached}
	}
	for _, pod := range wanted.podsAfter(actual.lastPod) {
		switch m := actual.pods[pod]; {
		case m == nil || m.state != mounted:
			return step{mount, pod}
		case m.remount:
			return step{remount, pod}
		case wanted.needsExpansion(actual) && !wanted.pods[pod].spec.ReadOnly:
			return step{expand, pod}
		}
	}
	return step{verdict: nothing}
}

// podsAfter returns the pods that want the volume, sorted, rotated to begin after a given one.
func (v *desiredVolume) podsAfter(turn types.UID) []types.UID {
	if len(v.pods) == 1 {
		return []types.UID{v.firstPod()}
	}
	pods := slices.Sorted(maps.Keys(v.pods))
	at, found := slices.BinarySearch(pods, turn)
	if found {
		at++
	}
	return slices.Concat(pods[at:], pods[:at])
}

// firstPod returns the first pod that wants the volume, by UID. There must be one.
func (v *desiredVolume) firstPod() types.UID {
	var first types.UID
	for pod := range v.pods {
		if first == "" || pod < first {
			first = pod
		}
	}
	return first
}

func (v *desiredVolume) wantedBy(pod types.UID) bool {
	_, ok := v.pods[pod]
	return ok
}

// situationOf returns the current situation of a volume.
func (m *Manager) situationOf(name corev1.UniqueVolumeName) situation {
	return situation{
		attached: m.attached(name), ready: m.ready, byKubelet: m.cfg.SelfAttach, incomplete: m.desired.isIncomplete,
	}
}
