package scheduler

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/volsim/volsim/scheduler/internal/framework"
	"github.com/volsim/volsim/sim"
)

// A place is where a queued pod waits.
type place int

const (
	inFlight      place = iota // a cycle decides about it
	active                     // for a cycle
	backingOff                 // for a cycle, after those that are active
	erring                     // until its back-off after an error has passed
	unschedulable              // for an event
)

// queuedPod is a pod without a node, as the queue knows it.
//
// Upstream: pkg/scheduler/framework QueuedPodInfo (v1.36).
type queuedPod struct {
	pod        *corev1.Pod
	at         place
	since      time.Time // it was added, or its last cycle ended
	seq        int       // of that
	rejections int       // cycles that found no node
	errors     int       // in a row
	rejectedBy sets.Set[string]
	until      time.Time // the end of the back-off
	seen       int       // in flight: the number of events before
	index      int       // in a heap
}

// profiler returns the profile of a pod.
type profiler func(*corev1.Pod) *profile

// A queue has the pods without a node.
//
// Upstream: pkg/scheduler/backend/queue PriorityQueue (v1.36).
//
// Differs: pods that no event helps are not tried again after five minutes.
type queue struct {
	process  *sim.Process
	min, max time.Duration // of the back-off
	of       profiler

	pods             map[types.UID]*queuedPod
	active, back     podHeap
	errors           podHeap
	timer            *sim.Timer // for errors
	flying, rejected int        // the number of pods in flight, and unschedulable
	events           []framework.Event
	seq              int
}

// newQueue returns the queue of a process.
func newQueue(process *sim.Process, of profiler, backoffMin, backoffMax time.Duration) *queue {
	q := &queue{process: process, of: of, min: backoffMin, max: backoffMax, pods: map[types.UID]*queuedPod{}}
	q.active.less = func(a, b *queuedPod) bool { return compareQueued(a, b) < 0 }
	q.back.less = func(a, b *queuedPod) bool {
		return cmp.Or(a.until.Truncate(time.Second).Compare(b.until.Truncate(time.Second)), compareQueued(a, b)) < 0
	}
	q.errors.less = func(a, b *queuedPod) bool { return cmp.Or(a.until.Compare(b.until), compareQueued(a, b)) < 0 }
	q.timer = process.NewTimer("pods retry", q.release)
	return q
}

// compareQueued orders pods by priority, and then by time.
//
// Upstream: plugins/queuesort PrioritySort (v1.36).
func compareQueued(a, b *queuedPod) int {
	return cmp.Or(cmp.Compare(corev1helpers.PodPriority(b.pod), corev1helpers.PodPriority(a.pod)), cmp.Compare(a.seq, b.seq))
}

// isEmpty reports whether no pod can have a cycle now.
func (q *queue) isEmpty() bool { return q.active.Len()+q.back.Len() == 0 }

// add queues a pod that is new.
func (q *queue) add(pod *corev1.Pod) {
	p := &queuedPod{pod: pod, since: q.process.Now(), seq: q.next()}
	q.pods[pod.UID] = p
	q.put(p, active)
}

func (q *queue) next() int {
	q.seq++
	return q.seq
}

// update replaces a pod. A change of the pod itself may make it schedulable.
//
// Upstream: pkg/scheduler/backend/queue PriorityQueue.Update (v1.36).
func (q *queue) update(old, pod *corev1.Pod) {
	p := q.pods[pod.UID]
	if p == nil {
		q.add(pod)
		return
	}
	p.pod = pod
	if p.at == active { // its priority may have changed
		heap.Fix(&q.active, p.index)
	}
	event := framework.Event{Resource: framework.Pod, Action: framework.PodChanges(old, pod), Old: old, New: pod}
	if q.flying > 0 {
		q.events = append(q.events, event)
	}
	if p.at == unschedulable && !sameForScheduling(old, pod) && q.mayHelp(p, &event) {
		q.requeue(p)
	}
}

// remove removes a pod.
func (q *queue) remove(uid types.UID) {
	p := q.pods[uid]
	if p == nil {
		return
	}
	q.take(p)
	delete(q.pods, uid)
}

// pop returns the next pod. It is in flight until done or reject is called.
func (q *queue) pop() *queuedPod {
	now := q.process.Now()
	for q.back.Len() > 0 && !q.back.pods[0].until.After(now) {
		p := q.back.pods[0]
		q.take(p)
		q.put(p, active)
	}
	from := &q.active
	if from.Len() == 0 {
		from = &q.back
	}
	p := from.pods[0]
	q.take(p)
	q.put(p, inFlight)
	return p
}

// done removes a pod that has a node.
func (q *queue) done(p *queuedPod) {
	if q.pods[p.pod.UID] == p {
		q.remove(p.pod.UID)
	}
}

// reject puts a pod back that got no node, or lost it: rejected by plugins, or because of an error if by
// is empty. pod is its last version.
//
// Upstream: pkg/scheduler/backend/queue PriorityQueue.AddUnschedulableIfNotPresent (v1.36).
func (q *queue) reject(p *queuedPod, pod *corev1.Pod, by sets.Set[string]) {
	var events []framework.Event
	switch q.pods[pod.UID] {
	case p:
		events = q.events[p.seen:]
		q.take(p)
	case nil:
		q.pods[pod.UID] = p
	default:
		return
	}
	p.pod, p.since, p.seq, p.rejectedBy = pod, q.process.Now(), q.next(), by
	if len(by) == 0 {
		p.errors++
		p.until = p.since.Add(q.backoff(p.errors))
		q.put(p, erring)
		return
	}
	p.errors = 0
	p.rejections++
	p.until = p.since.Add(q.backoff(p.rejections))
	if slices.ContainsFunc(events, func(e framework.Event) bool { return q.mayHelp(p, &e) }) {
		q.put(p, backingOff)
		return
	}
	q.put(p, unschedulable)
}

// backoff returns how long a pod backs off after n attempts.
func (q *queue) backoff(n int) time.Duration { return min(q.min<<min(n-1, 30), q.max) }

// happened requeues the pods that an event may help.
//
// Upstream: pkg/scheduler/backend/queue PriorityQueue.MoveAllToActiveOrBackoffQueue (v1.36).
func (q *queue) happened(event framework.Event) { q.happenedFor(event, "") }

// happenedFor does that for all pods but one.
func (q *queue) happenedFor(event framework.Event, except types.UID) {
	if q.flying > 0 {
		q.events = append(q.events, event)
	}
	if q.rejected == 0 {
		return
	}
	var helped []*queuedPod
	for p := range maps.Values(q.pods) {
		if p.at == unschedulable && p.pod.UID != except && q.mayHelp(p, &event) {
			helped = append(helped, p)
		}
	}
	slices.SortFunc(helped, compareQueued)
	for _, p := range helped {
		q.requeue(p)
	}
}

// requeue lets a pod have a cycle.
func (q *queue) requeue(p *queuedPod) {
	q.take(p)
	if p.until.After(q.process.Now()) {
		q.put(p, backingOff)
		return
	}
	q.put(p, active)
}

// mayHelp reports whether an event may make a pod schedulable, according to any plugin that rejected it.
func (q *queue) mayHelp(p *queuedPod, event *framework.Event) bool {
	of := q.of(p.pod)
	for name := range p.rejectedBy {
		for i := range of.hints[name] {
			if of.hints[name][i].Matches(event, p.pod) {
				return true
			}
		}
	}
	return false
}

// activate lets a pod have a cycle that backs off, or waits for an event.
func (q *queue) activate(pod *corev1.Pod) {
	if p := q.pods[pod.UID]; p != nil && (p.at == unschedulable || p.at == backingOff) {
		q.take(p)
		q.put(p, active)
	}
}

// isGated reports whether a plugin holds a pod back.
//
// Upstream: pkg/scheduler/backend/queue PriorityQueue.runPreEnqueuePlugins (v1.36).
func (q *queue) isGated(pod *corev1.Pod) bool {
	return slices.ContainsFunc(q.of(pod).plugins.gates, func(p framework.PreEnqueuer) bool { return p.PreEnqueue(pod) != nil })
}

// put sets where a pod waits that is in no place. One that the gate holds back waits for an event.
func (q *queue) put(p *queuedPod, at place) {
	if (at == active || at == backingOff) && q.isGated(p.pod) {
		at = unschedulable
	}
	p.at = at
	switch at {
	case inFlight:
		q.flying++
		p.seen = len(q.events)
	case active:
		heap.Push(&q.active, p)
	case backingOff:
		heap.Push(&q.back, p)
	case erring:
		heap.Push(&q.errors, p)
		q.timer.ResetAt(q.errors.pods[0].until)
	case unschedulable:
		q.rejected++
	}
}

// take removes a pod from its place.
func (q *queue) take(p *queuedPod) {
	switch p.at {
	case inFlight:
		if q.flying--; q.flying == 0 {
			q.events = nil
		}
	case active:
		heap.Remove(&q.active, p.index)
	case backingOff:
		heap.Remove(&q.back, p.index)
	case erring:
		heap.Remove(&q.errors, p.index)
		if q.errors.Len() == 0 {
			q.timer.Stop()
		}
	case unschedulable:
		q.rejected--
	}
}

// release activates the pods whose back-off after an error has passed.
func (q *queue) release() {
	now := q.process.Now()
	for q.errors.Len() > 0 && !q.errors.pods[0].until.After(now) {
		p := q.errors.pods[0]
		q.take(p)
		q.put(p, active)
	}
	if q.errors.Len() > 0 {
		q.timer.ResetAt(q.errors.pods[0].until)
	}
}

// podHeap is a heap of pods.
type podHeap struct {
	pods []*queuedPod
	less func(a, b *queuedPod) bool
}

func (h *podHeap) Len() int           { return len(h.pods) }
func (h *podHeap) Less(i, j int) bool { return h.less(h.pods[i], h.pods[j]) }

func (h *podHeap) Swap(i, j int) {
	h.pods[i], h.pods[j] = h.pods[j], h.pods[i]
	h.pods[i].index, h.pods[j].index = i, j
}

func (h *podHeap) Push(x any) {
	p := x.(*queuedPod)
	p.index = len(h.pods)
	h.pods = append(h.pods, p)
}

func (h *podHeap) Pop() any {
	p := h.pods[len(h.pods)-1]
	h.pods = h.pods[:len(h.pods)-1]
	return p
}
