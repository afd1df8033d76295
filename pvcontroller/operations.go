package pvcontroller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/executor"
	"github.com/volsim/volsim/sim"
)

// Plugin calls take time, so they run as operations outside the syncs: one at a time for each claim
// or volume, and after a failure not before the back-off has passed.
//
// Differs: upstream retries a failed operation at the next resync, up to 15 s late; here the key is
// queued when the back-off has passed. A request that arrives while an operation runs is processed
// when the operation ends, not at the next resync.
//
// Upstream: pkg/controller/volume/persistentvolume scheduleOperation, pkg/util/goroutinemap
// (v1.36).

// The kinds of operation. Failures are counted for each kind.
const (
	opProvision = "provision"
	opSave      = "save"  // create the PersistentVolume of a provisioned volume
	opClean     = "clean" // delete a provisioned volume without PersistentVolume
	opDelete    = "delete"
	opRecycle   = "recycle"
)

// A queueItem is a key of one of the two queues.
type queueItem struct {
	queue *sim.Queue[string]
	key   string
}

// String returns the key, marked as a retry.
func (i queueItem) String() string { return i.key + " again" }

// operations runs the operations of a controller.
type operations struct {
	memory   memory
	executor *executor.Executor
	panicked func(kind string, about object, err error)
	running  map[corev1.UniqueVolumeName]*running
	retries  *sim.Queue[queueItem] // items in back-off; in the background, since no event announces success
	waiting  map[queueItem]bool    // items in retries
}

// A running value is an operation in flight.
type running struct {
	item    queueItem
	uses    []object    // as they were when it began
	missed  bool        // requested again meanwhile
	waiting []queueItem // items to queue at its end, in order
}

// newOperations returns operations without any in flight. panicked is called for an operation that
// panicked; operations record all other failures themselves.
func newOperations(component *sim.Process, panicked func(kind string, about object, err error)) *operations {
	o := &operations{
		memory:   memory{component},
		panicked: panicked,
		running:  map[corev1.UniqueVolumeName]*running{},
		retries:  sim.NewQueue[queueItem](component, sim.QueueConfig{Name: "retries", Background: true}),
		waiting:  map[queueItem]bool{},
	}
	o.executor = executor.New(executor.Config{Process: component, OnDone: o.done})
	o.retries.Work(func(_ context.Context, item queueItem) error {
		delete(o.waiting, item)
		item.queue.Add(item.key)
		return nil
	})
	return o
}

// start runs an operation on an object, unless one of that name runs or this kind is in back-off.
// item is the object's key. run uses the object, and others, as they are now.
func (o *operations) start(kind, name string, item queueItem, about object, run func(ctx context.Context) error, others ...object) {
	o.memory.writeRest()
	key := corev1.UniqueVolumeName(name)
	done := func(_ executor.Outcome, err error) {
		if panicked := (*executor.PanicError)(nil); errors.As(err, &panicked) {
			o.panicked(kind, about, err)
		}
	}
	err := o.executor.Start(executor.Operation{Key: executor.Key{Volume: key}, Name: kind, Run: run, Done: done})
	switch {
	case err == nil:
		o.running[key] = &running{item: item, uses: append(others, about)}
	case errors.Is(err, executor.ErrPending):
		o.running[key].missed = true
	default:
		o.retryLater(item, err)
	}
}

// await reports whether an operation of that kind on an object is in flight. If so, it queues item
// when the operation ends.
func (o *operations) await(kind string, obj object, item queueItem) bool {
	if o == nil {
		return false
	}
	o.memory.readRest()
	if len(o.running) == 0 {
		return false
	}
	r := o.running[corev1.UniqueVolumeName(operationName(kind, obj))]
	if r != nil && !slices.Contains(r.waiting, item) {
		o.memory.writeRest()
		r.waiting = append(r.waiting, item)
	}
	return r != nil
}

// done processes the result of an operation.
func (o *operations) done(op executor.Operation, _ executor.Outcome, err error) {
	r := o.running[op.Key.Volume]
	delete(o.running, op.Key.Volume)
	for _, item := range r.waiting {
		item.queue.Add(item.key)
	}
	switch {
	case err != nil:
		o.retryLater(r.item, o.executor.Check(op.Key, op.Name))
	case r.missed:
		r.item.queue.Add(r.item.key)
	}
}

// retryLater queues an item when the back-off in err has passed. Without a back-off error it queues
// the item at once: on a real clock, a short back-off may have passed already.
func (o *operations) retryLater(item queueItem, err error) {
	var wait *executor.BackoffError
	if !errors.As(err, &wait) {
		item.queue.Add(item.key)
		return
	}
	if !o.waiting[item] {
		o.waiting[item] = true
		o.retries.AddAfter(item, wait.Remaining)
	}
}

// operationName returns upstream's name of an operation: "provision-default/c[uid]".
func operationName(kind string, obj object) string {
	return fmt.Sprintf("%s-%s[%s]", kind, keyOf(obj), obj.GetUID())
}
