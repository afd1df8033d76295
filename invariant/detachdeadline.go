package invariant

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim/trace"
)

// detachWithin is how long an attachment may exist that no pod needs and its ready node does not
// use, in the absence of faults. An attach in progress may take two minutes, and the controller's
// resync runs once a minute.
const detachWithin = 3 * time.Minute

// A detachDeadline records since when attachments are not needed.
type detachDeadline struct {
	*Checker
	needed    map[volumeOnNode]time.Time   // when a pod or the node was last seen to need it
	pods      map[types.UID][]volumeOnNode // what pods need, as far as their claims were bound
	lastFault time.Time                    // time of the last fault
	ticked    bool                         // time advanced although a step was possible
}

func (l *detachDeadline) commit(e fake.Commit) {
	l.afterTick()
	switch is := e.After.(type) {
	case *corev1.Pod:
		l.podChanged(is, e.Type == watch.Deleted || hasEnded(is))
	case *corev1.Node:
		l.nodeChanged(e, is)
	case *storagev1.VolumeAttachment:
		if was, _ := e.Before.(*storagev1.VolumeAttachment); was != nil && was.DeletionTimestamp == nil &&
			(is.DeletionTimestamp != nil || e.Type == watch.Deleted) {
			l.detachBegins(is)
		}
	}
}

// podChanged records that the pod needed its volumes until now.
func (l *detachDeadline) podChanged(pod *corev1.Pod, ended bool) {
	if pod.Spec.NodeName == "" {
		return
	}
	needs := l.pods[pod.UID]
	for _, name := range volumesOfPod(l.API, pod) {
		at := volumeAt(csiVolumeNamed(l.API, name), pod.Spec.NodeName)
		if !slices.Contains(needs, at) {
			needs = append(needs, at)
		}
	}
	for _, at := range needs {
		l.needed[at] = l.Now()
	}
	if l.pods[pod.UID] = needs; ended {
		delete(l.pods, pod.UID)
	}
}

// nodeChanged records that the node used its volumesInUse until now, and whether it was ready.
func (l *detachDeadline) nodeChanged(e fake.Commit, is *corev1.Node) {
	was, _ := e.Before.(*corev1.Node)
	if was == nil || e.Type == watch.Deleted || !isReady(was) || !isReady(is) {
		l.lastFault = l.Now()
		return
	}
	for _, name := range was.Status.VolumesInUse {
		if driver, handle, ok := splitUniqueVolume(name); ok {
			l.needed[volumeOnNode{driver, handle, is.Name}] = l.Now()
		}
	}
}

// failed records a failed request or driver call, after which the controller may have to wait.
func (l *detachDeadline) failed(r trace.Record) {
	l.afterTick()
	if (r.Err != nil || r.Lost) && (r.Kind == trace.KindDriver || strings.HasPrefix(r.Task, "attachdetach")) {
		l.lastFault = l.Now()
	}
}

func (l *detachDeadline) onEvent(r trace.Record) {
	l.lastFault = l.Now()
	l.ticked = r.Verb == "tick"
}

// afterTick excuses the delay of all components after a tick.
func (l *detachDeadline) afterTick() {
	if l.ticked {
		l.lastFault, l.ticked = l.Now(), false
	}
}

// detachBegins checks whether the deletion of an attachment begins in time.
func (l *detachDeadline) detachBegins(a *storagev1.VolumeAttachment) {
	v := volumeOf(l.API, a)
	node := nodeNamed(l.API, a.Spec.NodeName)
	if v == nil {
		return
	}
	if node != nil && slices.Contains(node.Status.VolumesInUse,
		uniqueVolume(v.Spec.CSI.Driver, v.Spec.CSI.VolumeHandle)) {
		return // it is detached from a node that still reports it in use: see I16
	}
	since, known := l.needed[volumeAt(v, a.Spec.NodeName)]
	if l.lastFault.After(since) {
		since = l.lastFault
	}
	if waited := l.Now().Sub(since); known && waited > detachWithin {
		l.report("L4", "volume %s is being detached from node %s only now, %v after the last pod there that needed it was gone",
			v.Name, a.Spec.NodeName, waited)
	}
}
