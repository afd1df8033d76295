package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/resourceversion"
	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/sim"
)

// An unmetError is a failure that only a change of another object can end.
type unmetError struct{ text string }

func (e *unmetError) Error() string { return e.text }

func unmet(format string, args ...any) error { return &unmetError{fmt.Sprintf(format, args...)} }

// restated returns an error with another text that is an unmetError if err is one.
func restated(err error, format string, args ...any) error {
	if was := (*unmetError)(nil); errors.As(err, &was) {
		return unmet(format, args...)
	}
	return fmt.Errorf(format, args...)
}

// waits are the objects of one kind whose last sync ended with an unmetError.
type waits[P metav1.Object] struct {
	queue   *sim.Queue[types.NamespacedName] // of objects
	retries *sim.Queue[types.NamespacedName] // delays
	all     map[types.NamespacedName]*wait[P]
}

// A wait is an object that waits for a change of another one.
type wait[P metav1.Object] struct {
	obj       P // as last synced
	failures  int
	scheduled bool   // a retry is scheduled
	told      string // the last warning
}

func newWaits[P metav1.Object](process *sim.Process, queue *sim.Queue[types.NamespacedName], name string) waits[P] {
	w := waits[P]{
		queue:   queue,
		retries: sim.NewQueue[types.NamespacedName](process, sim.QueueConfig{Name: name, Background: true}),
		all:     map[types.NamespacedName]*wait[P]{},
	}
	w.retries.Work(func(_ context.Context, key types.NamespacedName) error {
		if one := w.all[key]; one != nil {
			one.scheduled = false
			queue.Add(key)
		}
		return nil
	})
	return w
}

// of returns the wait of an object, a new one if it has none.
func (w waits[P]) of(obj P) *wait[P] {
	key := keyOf(obj)
	one := w.all[key]
	if one == nil || one.obj.GetUID() != obj.GetUID() {
		w.end(key)
		one = &wait[P]{}
		w.all[key] = one
	}
	one.obj = obj
	return one
}

// begin schedules a retry of an object in the background.
func (w waits[P]) begin(obj P) {
	key, one := keyOf(obj), w.of(obj)
	if !one.scheduled {
		one.scheduled = true
		w.retries.AddAfter(key, delay(one.failures))
		one.failures++
	}
}

// delay returns the delay after a number of earlier failures.
func delay(failures int) time.Duration {
	d := backoffMin
	for range failures {
		if d >= backoffMax {
			break
		}
		d *= 2
	}
	return min(d, backoffMax)
}

// end removes an object.
func (w waits[P]) end(key types.NamespacedName) {
	if w.all[key] != nil {
		w.retries.Cancel(key)
		delete(w.all, key)
	}
}

// requeue queues the waiting objects for which match returns true.
func (w waits[P]) requeue(match func(obj P) bool) {
	var keys []types.NamespacedName
	for key, one := range w.all {
		if match(one.obj) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	for _, key := range keys {
		w.queue.Add(key)
	}
}

// wantsContent reports whether a snapshot is bound to a content of the name, or to be.
func wantsContent(snapshot *snapshotapi.VolumeSnapshot, name string) bool {
	own := snapshot.Spec.Source.VolumeSnapshotContentName
	return own != nil && *own == name || snapshot.BoundContent() == name || snapshotapi.ContentName(snapshot) == name
}

// concerns reports whether a claim is the source of a snapshot, or restores from it.
func concerns(snapshot *snapshotapi.VolumeSnapshot, claim *corev1.PersistentVolumeClaim) bool {
	return snapshot.Namespace == claim.Namespace &&
		(snapshot.SourceClaim() == claim.Name || snapshotapi.RestoredFrom(claim) == snapshot.Name)
}

// versions are the versions of objects that a process has written, by key. A cache may lack them.
type versions map[string]string

func (v versions) note(obj metav1.Object) { v[keyOf(obj).String()] = obj.GetResourceVersion() }

func (v versions) forget(obj metav1.Object) { delete(v, keyOf(obj).String()) }

// isNewer reports whether a later version than this one was written.
func (v versions) isNewer(obj metav1.Object) bool {
	written, ok := v[keyOf(obj).String()]
	if !ok {
		return false
	}
	order, err := resourceversion.Compare(written, obj.GetResourceVersion())
	return err == nil && order > 0
}

// has reports whether the process has written an object of the name.
func (v versions) has(namespace, name string) bool {
	_, ok := v[types.NamespacedName{Namespace: namespace, Name: name}.String()]
	return ok
}
