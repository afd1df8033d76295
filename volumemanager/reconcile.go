package volumemanager

import (
	"context"
	"errors"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/executor"
)

// verdict is what is to be done next about a volume.
type verdict int

const (
	nothing       verdict = iota // desired is actual
	unmount                      // from a pod that does not want it
	awaitReport                  // in volumesInUse, which the kubelet will patch
	awaitAttached                // in volumesAttached, as the attach/detach controller reports it
	noteAttached                 // it is attached: note it
	mount                        // for a pod
	unmountDevice                // nobody uses it
	forget                       // nothing of it is here: it may be detached
)

// String names the verdict.
func (v verdict) String() string {
	return [...]string{
		"nothing", "unmount", "await report in volumesInUse", "await volumesAttached", "note attached", "mount",
		"unmount device", "forget",
	}[v]
}

// step is a verdict and, for unmount and mount, the pod.
type step struct {
	verdict verdict
	pod     types.UID
}

// decide tells what is to be done about a volume: every unmount that is due, and then at most one other thing. wanted
// and actual may be nil. attached tells whether the Node lists the volume as attached, and is current.
//
// Upstream: pkg/kubelet/volumemanager/reconciler reconcile, for one volume (v1.36).
func decide(wanted *desiredVolume, actual *actualVolume, attached bool) []step {
	var steps []step
	if actual != nil {
		for _, pod := range actual.sortedPods() {
			if wanted == nil || !wanted.wantedBy(pod) {
				steps = append(steps, step{unmount, pod})
			}
		}
	}
	switch {
	case wanted != nil:
		return append(steps, decideWanted(wanted, actual, attached))
	case actual == nil:
		return append(steps, step{verdict: forget}) // it may have been reported in use
	case len(actual.pods) > 0:
		return steps
	case actual.device != notMounted:
		return append(steps, step{verdict: unmountDevice})
	default:
		return append(steps, step{verdict: forget})
	}
}

func decideWanted(wanted *desiredVolume, actual *actualVolume, attached bool) step {
	switch {
	case actual != nil:
	case !wanted.attachable, wanted.reported && attached:
		return step{verdict: noteAttached}
	case !wanted.reported:
		return step{verdict: awaitReport}
	default:
		return step{verdict: awaitAttached}
	}
	for _, pod := range wanted.podsAfter(actual.turn) {
		if actual.mountState(pod) != mounted {
			return step{mount, pod}
		}
	}
	return step{verdict: nothing}
}

// podsAfter are the pods that want the volume, in the order in which it is their turn after that of a given one.
func (v *desiredVolume) podsAfter(turn types.UID) []types.UID {
	pods := slices.Sorted(maps.Keys(v.pods))
	at, found := slices.BinarySearch(pods, turn)
	if found {
		at++
	}
	return slices.Concat(pods[at:], pods[:at])
}

func (v *desiredVolume) wantedBy(pod types.UID) bool {
	_, ok := v.pods[pod]
	return ok
}

// reconcile does what is to be done about a volume. Operations it starts bring it back here when they end.
func (m *Manager) reconcile(_ context.Context, name corev1.UniqueVolumeName) error {
	for _, s := range decide(m.desired.volumes[name], m.actual.volumes[name], m.attached(name)) {
		switch s.verdict {
		case unmount:
			m.start(m.unmountOperation(name, s.pod))
		case noteAttached:
			path, _ := m.devicePath(name)
			m.actual.add(m.desired.volumes[name], path)
			m.volumes.Add(name)
		case mount:
			m.start(m.mountOperation(name, s.pod))
		case unmountDevice:
			m.start(m.unmountDeviceOperation(name))
		case forget:
			delete(m.actual.volumes, name)
			m.cfg.ReportChanged()
		case awaitReport:
			m.cfg.ReportChanged()
		case awaitAttached, nothing:
		}
	}
	return nil
}

// start starts an operation. One that is under way already brings the volume back when it ends; one in back-off is tried
// again when that is over.
func (m *Manager) start(op executor.Operation) {
	var backoff *executor.BackoffError
	if err := m.ops.Start(op); errors.As(err, &backoff) {
		m.volumes.AddAfter(op.Key.Volume, backoff.Remaining)
	}
}
