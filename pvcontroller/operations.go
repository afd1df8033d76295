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

// What a plugin does takes its time, so it is done beside the syncs, by operations: one at a time for each claim or volume,
// and after a failure not before its back-off has passed.
//
// Differs: upstream tries a failed operation again when the resync comes round, up to 15 s late; here the key comes back
// when the back-off is over. What came up while an operation ran is looked at when it ends, and not at the next resync.
//
// Upstream: pkg/controller/volume/persistentvolume scheduleOperation, pkg/util/goroutinemap (v1.36).

// The kinds of operation. Failures of each are counted apart.
const (
	opProvision = "provision"
	opSave      = "save"  // create the PersistentVolume of a volume that was made
	opClean     = "clean" // delete a volume that was made and cannot be saved
	opDelete    = "delete"
	opRecycle   = "recycle"
)

// queueItem is the key of one of the two queues.
type queueItem struct {
	queue *sim.Queue[string]
	key   string
}

// String is the key, marked as not being taken up itself.
func (i queueItem) String() string { return i.key + " again" }

// operations runs the operations of a controller.
type operations struct {
	executor *executor.Executor
	panicked func(kind string, about object, err error)
	running  map[corev1.UniqueVolumeName]*running
	retries  *sim.Queue[queueItem] // items whose operation failed; in the background, since nobody announces that it could succeed
	waiting  map[queueItem]bool    // those that will come up in retries
}

// running is an operation that runs.
type running struct {
	item    queueItem
	missed  bool        // it was wanted again
	waiting []queueItem // for its end, in order
}

// newOperations makes them. panicked is told of what panicked; all other failures the operations tell of by themselves.
func newOperations(component *sim.Process, panicked func(kind string, about object, err error)) *operations {
	o := &operations{
		panicked: panicked,
		running:  map[corev1.UniqueVolumeName]*running{},
		retries:  sim.NewQueue[queueItem](component, sim.QueueConfig{Name: "retries", Background: true}),
		waiting:  map[queueItem]bool{},
	}
	o.executor = executor.New(executor.Config{Process: component, OnDone: o.done})
	o.retries.Work(func(_ context.Context, of queueItem) error {
		delete(o.waiting, of)
		of.queue.Add(of.key)
		return nil
	})
	return o
}

// start runs an operation for an object, which is an item of a queue, unless one of that name runs already or this kind waits
// for its back-off.
func (o *operations) start(kind, name string, of queueItem, about object, run func(ctx context.Context) error) {
	key := corev1.UniqueVolumeName(name)
	ended := func(_ executor.Outcome, err error) {
		if panicked := (*executor.PanicError)(nil); errors.As(err, &panicked) {
			o.panicked(kind, about, err)
		}
	}
	err := o.executor.Start(executor.Operation{Key: executor.Key{Volume: key}, Name: kind, Run: run, Done: ended})
	switch {
	case err == nil:
		o.running[key] = &running{item: of}
	case errors.Is(err, executor.ErrPending):
		o.running[key].missed = true
	default:
		o.retryLater(of, err)
	}
}

// await tells whether an operation of that kind on an object is under way, and if so, has an item looked at when it ends.
func (o *operations) await(kind string, obj object, of queueItem) bool {
	if o == nil || len(o.running) == 0 {
		return false
	}
	r := o.running[corev1.UniqueVolumeName(operationName(kind, obj))]
	if r != nil && !slices.Contains(r.waiting, of) {
		r.waiting = append(r.waiting, of)
	}
	return r != nil
}

// done takes in how an operation ended.
func (o *operations) done(op executor.Operation, _ executor.Outcome, err error) {
	r := o.running[op.Key.Volume]
	delete(o.running, op.Key.Volume)
	for _, of := range r.waiting {
		of.queue.Add(of.key)
	}
	switch {
	case err != nil:
		o.retryLater(r.item, o.executor.Check(op.Key, op.Name))
	case r.missed:
		r.item.queue.Add(r.item.key)
	}
}

// retryLater has an item looked at again when the back-off is over that err tells of: at once if it tells of none, since on a real
// clock a short one may be over before it is asked for.
func (o *operations) retryLater(of queueItem, err error) {
	var wait *executor.BackoffError
	if !errors.As(err, &wait) {
		of.queue.Add(of.key)
		return
	}
	if !o.waiting[of] {
		o.waiting[of] = true
		o.retries.AddAfter(of, wait.Remaining)
	}
}

// operationName names what is done for an object, as upstream does: "provision-default/c[uid]".
func operationName(kind string, obj object) string {
	return fmt.Sprintf("%s-%s[%s]", kind, keyOf(obj), obj.GetUID())
}
