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

// letGoWithin is how long an attachment may stand that no pod needs and its node, which is well, does not use, when nothing
// goes wrong: an attach that is under way may take two minutes, and a controller that looks for what it has missed does so
// once a minute.
const letGoWithin = 3 * time.Minute

// letGo is since when attachments are not needed.
type letGo struct {
	*Checker
	needed map[volumeOnNode]time.Time   // when a pod, or the node, was last seen to need it
	pods   map[types.UID][]volumeOnNode // what pods need, as far as their claims were bound
	wrong  time.Time                    // when something last went wrong
	ticked bool                         // time has moved on though something could have happened first
}

func (l *letGo) commit(e fake.Commit) {
	l.late()
	switch is := e.After.(type) {
	case *corev1.Pod:
		l.podChanged(is, e.Type == watch.Deleted || hasEnded(is))
	case *corev1.Node:
		l.nodeChanged(e, is)
	case *storagev1.VolumeAttachment:
		if was, _ := e.Before.(*storagev1.VolumeAttachment); was != nil && was.DeletionTimestamp == nil &&
			(is.DeletionTimestamp != nil || e.Type == watch.Deleted) {
			l.begins(is)
		}
	}
}

// podChanged: up to now the pod needed its volumes.
func (l *letGo) podChanged(pod *corev1.Pod, ended bool) {
	if pod.Spec.NodeName == "" {
		return
	}
	needs := l.pods[pod.UID]
	for _, name := range volumesOfPod(l.API, pod) {
		at := volumeOnNode{csiVolumeNamed(l.API, name).Spec.CSI.VolumeHandle, pod.Spec.NodeName}
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

// nodeChanged: up to now the node used what it said, and was as well as it was.
func (l *letGo) nodeChanged(e fake.Commit, is *corev1.Node) {
	was, _ := e.Before.(*corev1.Node)
	if was == nil || e.Type == watch.Deleted || !isReady(was) || !isReady(is) {
		l.wrong = l.Now()
		return
	}
	for _, name := range was.Status.VolumesInUse {
		if _, handle, ok := splitUniqueVolume(name); ok {
			l.needed[volumeOnNode{handle, is.Name}] = l.Now()
		}
	}
}

// failed: the controller may have to wait after a request, or a call of the driver, that failed.
func (l *letGo) failed(r trace.Record) {
	l.late()
	if (r.Err != nil || r.Lost) && (r.Kind == trace.KindDriver || strings.HasPrefix(r.Actor, "attachdetach")) {
		l.wrong = l.Now()
	}
}

func (l *letGo) befell(r trace.Record) {
	l.wrong = l.Now()
	l.ticked = r.Verb == "tick"
}

// late: the time by which everybody is late after a tick is no fault of theirs.
func (l *letGo) late() {
	if l.ticked {
		l.wrong, l.ticked = l.Now(), false
	}
}

// begins looks whether an attachment begins to be deleted in time.
func (l *letGo) begins(a *storagev1.VolumeAttachment) {
	v := volumeOf(l.API, a)
	node := nodeNamed(l.API, a.Spec.NodeName)
	if v == nil {
		return
	}
	if node != nil && slices.Contains(node.Status.VolumesInUse, uniqueVolume(v.Spec.CSI.Driver, v.Spec.CSI.VolumeHandle)) {
		return // it is taken away from a node that still says that it uses it: that is for I16
	}
	since, known := l.needed[volumeOnNode{v.Spec.CSI.VolumeHandle, a.Spec.NodeName}]
	if l.wrong.After(since) {
		since = l.wrong
	}
	if waited := l.Now().Sub(since); known && waited > letGoWithin {
		l.report("L4", "volume %s is to be detached from node %s only now, %v after the last pod there that needed it was gone",
			v.Name, a.Spec.NodeName, waited)
	}
}
