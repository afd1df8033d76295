package sim

import (
	"container/heap"
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/volsim/volsim/sim/trace"
)

// The default back-off of a queue.
//
// Upstream: client-go util/workqueue DefaultTypedControllerRateLimiter, its per-item part.
const (
	backoffMin = 5 * time.Millisecond
	backoffMax = 1000 * time.Second
)

// QueueConfig configures NewQueue.
type QueueConfig struct {
	Name       string        // of the queue's tasks
	BackoffMin time.Duration // delay after the first failure; doubles with each. 0: BackoffMin
	BackoffMax time.Duration // 0: BackoffMax
	// Background says that retries poll for changes that are not announced. They do not keep a
	// world from being quiescent; see NewBackgroundTimer.
	Background bool
	// Heartbeat says that the work only shows that the process is running, such as the renewal of a
	// Lease. Its timer fires when time passes, but a stepped world lets no time pass for it alone. Its
	// writes are not changes for which background timers fire again. It therefore does not keep a
	// world from being quiescent.
	Heartbeat bool
	// Watchdog says that a key waits for the end of the heartbeats of the same key: another process
	// has it in a queue of heartbeats. Its timer fires when time passes. A stepped world lets time pass
	// for it only if no process has such a heartbeat. So it keeps a world from being quiescent only
	// after the heartbeats have ended. If time has passed for both, the heartbeats come first.
	Watchdog bool
	// Memory is the part of the process's memory that handling a key uses, besides parts that it names by
	// Touch, as in Process.WorkerOf. "": all of the memory.
	Memory string
}

// A Queue hands keys to workers of its process. A key that is added while it waits is queued once.
// A key that is added while a worker handles it is queued again afterwards. The order is first in,
// first out.
//
// Differs: upstream's queues also share a bucket of 10 a second over all keys; back-off here is per
// key only.
//
// Upstream: client-go util/workqueue.
type Queue[K comparable] struct {
	process  *Process
	cfg      QueueConfig
	order    []K
	first    int            // index in order of the first key that waits
	dirty    map[K]struct{} // keys in order, or to be queued when their work ends; nil, like working, before the first key
	working  map[K]struct{}
	failures map[K]int // nil before the first one
	later    delayHeap[K]
	seq      int
	timer    *Timer
	hasWork  func() bool // hasWaiting
}

// NewQueue returns a queue of a process.
func NewQueue[K comparable](p *Process, cfg QueueConfig) *Queue[K] {
	if cfg.BackoffMin == 0 {
		cfg.BackoffMin = backoffMin
	}
	if cfg.BackoffMax == 0 {
		cfg.BackoffMax = backoffMax
	}
	m := newQueue[K](p, cfg)
	q := &m.Queue
	p.queues = append(p.queues, q)
	q.timer.register(p, m.name)
	q.timer.background, q.timer.heartbeat = cfg.Background, cfg.Heartbeat || cfg.Watchdog
	if cfg.Watchdog {
		q.timer.missed = q.missed
	}
	return q
}

// Work adds a worker, which calls sync for each key; sync may suspend. An error puts the key back
// after its back-off. Success resets the back-off.
func (q *Queue[K]) Work(sync func(ctx context.Context, key K) error) {
	t := q.process.newWorker(q.cfg.Name, q.hasWork, newQueueWorker(q, sync).step)
	t.memory = q.cfg.Memory
	if q.cfg.Heartbeat {
		t.beats = q.has
	}
	q.process.add(t)
}

// work handles the next key.
func (w *queueWorker[K]) work(ctx context.Context) {
	q := w.queue
	key := q.get()
	defer q.done(key)
	q.process.Record(trace.Action{Kind: trace.KindWork, Verb: "sync", Object: keyText(key)}, trace.Outcome{})
	if err := w.sync(ctx, key); err != nil {
		q.AddRateLimited(key)
		return
	}
	q.Forget(key)
}

// keyText returns the text form of a key in the trace.
func keyText[K comparable](key K) string {
	_, named := any(key).(fmt.Stringer)
	if v := reflect.ValueOf(key); v.Kind() == reflect.String && !named {
		return v.String()
	}
	return fmt.Sprint(key)
}

// Add queues a key.
func (q *Queue[K]) Add(key K) {
	if _, ok := q.dirty[key]; ok {
		q.touch(AccessRead, key)
		return
	}
	if q.dirty == nil {
		q.dirty, q.working = map[K]struct{}{}, map[K]struct{}{}
	}
	q.dirty[key] = struct{}{}
	q.touch(AccessWrite, key)
	if _, ok := q.working[key]; !ok {
		q.append(key)
	}
}

// append queues a key as the last one.
func (q *Queue[K]) append(key K) {
	q.order = append(q.order, key)
	if q.process.host.observed() {
		q.process.Touch(AccessWrite, "queue "+q.cfg.Name+" tail")
	}
}

// touch informs an AccessObserver of a use of what the queue has of a key.
func (q *Queue[K]) touch(kind AccessKind, key K) {
	if q.process.host.observed() {
		q.process.Touch(kind, "queue "+q.cfg.Name+"/"+keyText(key))
	}
}

// AddAfter queues a key when d has passed.
func (q *Queue[K]) AddAfter(key K, d time.Duration) {
	if d <= 0 {
		q.Add(key)
		return
	}
	q.seq++
	q.touch(AccessWrite, key)
	heap.Push(&q.later, delayed[K]{key: key, at: q.process.Now().Add(d), seq: q.seq})
	q.timer.ResetAt(q.later[0].at)
}

// AddRateLimited queues a key after its back-off.
func (q *Queue[K]) AddRateLimited(key K) {
	d := q.cfg.BackoffMin << min(q.failures[key], 40)
	if d > q.cfg.BackoffMax || d <= 0 {
		d = q.cfg.BackoffMax
	}
	if q.failures == nil {
		q.failures = map[K]int{}
	}
	q.failures[key]++
	q.AddAfter(key, d)
}

// Cancel removes a key whose time has not come, and reports whether there was one. A key that waits
// for a worker stays.
func (q *Queue[K]) Cancel(key K) bool {
	q.touch(AccessWrite, key)
	had := len(q.later)
	q.later = slices.DeleteFunc(q.later, func(d delayed[K]) bool { return d.key == key })
	if len(q.later) == had {
		return false
	}
	heap.Init(&q.later)
	if len(q.later) > 0 {
		q.timer.ResetAt(q.later[0].at)
	} else {
		q.timer.Stop()
	}
	return true
}

// Forget resets the back-off of a key.
func (q *Queue[K]) Forget(key K) { delete(q.failures, key) }

// has reports whether the queue has a key: it waits for its time or for a worker, or a worker handles
// it.
func (q *Queue[K]) has(key any) bool {
	k, ok := key.(K)
	if !ok {
		return false
	}
	_, waits := q.dirty[k]
	_, handled := q.working[k]
	return waits || handled || slices.ContainsFunc(q.later, func(d delayed[K]) bool { return d.key == k })
}

// missed returns the earliest time of a key that has no heartbeat, and whether there is one.
func (q *Queue[K]) missed(beats func(key any) bool) (time.Time, bool) {
	var next earliest
	for _, d := range q.later {
		if !beats(d.key) {
			next.consider(d.at)
		}
	}
	return next.at, next.found
}

// Len returns the number of keys that wait for a worker.
func (q *Queue[K]) Len() int {
	if q.process.host.observed() {
		q.process.Touch(AccessWrite, "queue "+q.cfg.Name+" tail")
		q.process.Touch(AccessWrite, "queue "+q.cfg.Name+" head")
	}
	return q.waiting()
}

// hasWaiting reports whether a key waits for a worker.
func (q *Queue[K]) hasWaiting() bool { return q.waiting() > 0 }

// waiting is Len, without an access.
func (q *Queue[K]) waiting() int { return len(q.order) - q.first }

func (q *Queue[K]) get() K {
	var none K
	key := q.order[q.first]
	q.order[q.first] = none
	q.touch(AccessWrite, key)
	if q.process.host.observed() {
		q.process.Touch(AccessWrite, "queue "+q.cfg.Name+" head")
	}
	if q.first++; 2*q.first >= len(q.order) { // the keys behind are moved at most once for each key taken
		q.order, q.first = slices.Delete(q.order, 0, q.first), 0
	}
	q.working[key] = struct{}{}
	delete(q.dirty, key)
	return key
}

func (q *Queue[K]) done(key K) {
	delete(q.working, key)
	q.touch(AccessWrite, key)
	if _, ok := q.dirty[key]; ok {
		q.append(key)
	}
}

// release queues the keys whose time has come.
func (q *Queue[K]) release() {
	now := q.process.Now()
	for len(q.later) > 0 && !q.later[0].at.After(now) {
		q.Add(heap.Pop(&q.later).(delayed[K]).key)
	}
	if len(q.later) > 0 {
		q.timer.ResetAt(q.later[0].at)
	}
}

type delayed[K comparable] struct {
	key K
	at  time.Time
	seq int // order of adding, among equal times
}

type delayHeap[K comparable] []delayed[K]

func (h delayHeap[K]) Len() int { return len(h) }
func (h delayHeap[K]) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].seq < h[j].seq
}
func (h delayHeap[K]) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *delayHeap[K]) Push(x any)   { *h = append(*h, x.(delayed[K])) }
func (h *delayHeap[K]) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
