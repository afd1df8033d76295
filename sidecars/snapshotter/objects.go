package snapshotter

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/volsim/volsim/internal/customresource"
	"github.com/volsim/volsim/internal/resourceversion"
	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/sim"
)

// pruneMin is the least number of written objects at which objects are forgotten.
const pruneMin = 64

// objects are the contents of one kind: as cached, and how they are written.
type objects[T any, P customresource.Object[T]] struct {
	kind     customresource.Kind[T, P]
	cache    customresource.Cache[T, P]
	client   customresource.Client[T, P]
	process  *sim.Process
	recorder record.EventRecorder
	// written holds the objects as this process has written or read them, until its cache shows them. A
	// cache that lags must not make it repeat what it has done, nor miss what it has begun.
	written map[string]P
	pruneAt int // number of written objects at which those that the cache shows are forgotten
}

// get returns the newest known state of an object, or nil if it does not exist.
//
// Differs: upstream ignores a content whose cached state is older than the known one, until the next
// change or resync.
//
// Upstream: external-snapshotter pkg/utils StoreObjectUpdate (8.7.0).
func (o *objects[T, P]) get(name string) P {
	cached, own := o.cache.Get("", name), o.written[name]
	switch {
	case !o.lags(cached, own):
		delete(o.written, name)
		return cached
	case own.GetDeletionTimestamp() != nil && len(own.GetFinalizers()) == 0:
		return nil // removed with this write
	default:
		return own
	}
}

// lags reports whether a cached object is an older state than the written one. An object that the cache
// lacks was removed: none is written before the cache has it.
func (o *objects[T, P]) lags(cached, own P) bool {
	return cached != nil && own != nil && cached.GetUID() == own.GetUID() && isOlder(cached, own)
}

// isConfirmed reports whether the API server has returned the object to this process, in a state that
// the cache does not have yet.
func (o *objects[T, P]) isConfirmed(name string) bool { return o.written[name] != nil }

// isOlder reports whether an object is an older state of the same object than another.
func isOlder(obj, than metav1.Object) bool {
	order, err := resourceversion.Compare(obj.GetResourceVersion(), than.GetResourceVersion())
	return err == nil && order < 0
}

// keep remembers an object as the API server has returned it.
func (o *objects[T, P]) keep(obj P, err error) (P, error) {
	if err != nil {
		return nil, err
	}
	o.written[obj.GetName()] = obj
	o.prune()
	return obj, nil
}

// prune forgets the written objects that the cache shows, now and then.
func (o *objects[T, P]) prune() {
	if len(o.written) < o.pruneAt {
		return
	}
	for name, own := range o.written {
		if !o.lags(o.cache.Get("", name), own) {
			delete(o.written, name)
		}
	}
	o.pruneAt = 2*len(o.written) + pruneMin
}

// read returns an object of the API server.
func (o *objects[T, P]) read(ctx context.Context, name string) (P, error) {
	return o.keep(o.client.Get(ctx, "", name))
}

// patch sends a merge patch and returns the patched object.
func (o *objects[T, P]) patch(ctx context.Context, obj P, patch map[string]any, subresources ...string) (P, error) {
	text, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("patch of %s: %w", o.kind.Name, err)
	}
	patched, err := o.keep(o.client.Patch(ctx, "", obj.GetName(), types.MergePatchType, text, subresources...))
	if err != nil {
		return nil, fmt.Errorf("snapshot controller failed to update %s on API server: %w", obj.GetName(), err)
	}
	return patched, nil
}

// annotate gives an object an annotation, or removes it if value is nil. It returns the object as it is
// if it needs no change, and with an error.
//
// Differs: upstream replaces all annotations when it adds one, and may lose another's.
//
// Upstream: external-snapshotter pkg/sidecar-controller setAnnVolumeSnapshotBeingCreated,
// removeAnnVolumeSnapshotBeingCreated (8.7.0).
func (o *objects[T, P]) annotate(ctx context.Context, obj P, annotation string, value *string) (P, error) {
	if _, has := obj.GetAnnotations()[annotation]; has == (value != nil) {
		return obj, nil
	}
	patched, err := o.patch(ctx, obj, map[string]any{"metadata": map[string]any{
		"uid": obj.GetUID(), "annotations": map[string]*string{annotation: value},
	}})
	if err != nil {
		return obj, err
	}
	return patched, nil
}

// release removes a finalizer, unless the object has changed since it was read: it may be in use
// again, or a request that is not known here may have been made for it.
//
// Differs: upstream overwrites concurrent changes.
//
// Upstream: external-snapshotter pkg/sidecar-controller removeContentFinalizer (8.7.0).
func (o *objects[T, P]) release(ctx context.Context, obj P, finalizer string) error {
	if !slices.Contains(obj.GetFinalizers(), finalizer) {
		return nil
	}
	kept := slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool { return f == finalizer })
	_, err := o.patch(ctx, obj, map[string]any{"metadata": map[string]any{
		"uid": obj.GetUID(), "resourceVersion": obj.GetResourceVersion(), "finalizers": kept,
	}})
	return err
}

// patchStatus writes the difference between two states of an object's status.
func (o *objects[T, P]) patchStatus(ctx context.Context, obj P, before, after any) (P, error) {
	had, has := fields(before), fields(after)
	for field := range had {
		if _, ok := has[field]; !ok {
			has[field] = nil
		}
	}
	return o.patch(ctx, obj, map[string]any{
		"metadata": map[string]any{"uid": obj.GetUID()}, "status": has,
	}, "status")
}

// fields returns the JSON form of a struct.
func fields(status any) map[string]any {
	text, err := json.Marshal(status)
	if err != nil {
		panic(fmt.Sprintf("snapshotter: write status: %v", err)) // a type without JSON form
	}
	found := map[string]any{}
	if err := json.Unmarshal(text, &found); err != nil {
		panic(fmt.Sprintf("snapshotter: read status: %v", err))
	}
	return found
}

// report writes an error into the status of an object and sends it as an event. An error that the
// status has already is not repeated. The next attempt does not depend on whether it was written.
//
// Upstream: external-snapshotter pkg/sidecar-controller updateContentErrorStatusWithEvent (8.7.0).
func (o *objects[T, P]) report(ctx context.Context, obj P, was *snapshotapi.Error, reason, message string) {
	if was != nil && was.Message != nil && *was.Message == message {
		return
	}
	now := metav1.NewTime(o.process.Now())
	patched, err := o.patch(ctx, obj, map[string]any{
		"metadata": map[string]any{"uid": obj.GetUID()},
		"status": map[string]any{
			"readyToUse": false, "error": snapshotapi.Error{Time: &now, Message: &message},
		},
	}, "status")
	if err == nil {
		obj = patched
	}
	o.warn(obj, reason, message)
}

// warn sends an event about an object.
func (o *objects[T, P]) warn(obj P, reason, message string) {
	o.recorder.Event(o.kind.Unstructured(obj), corev1.EventTypeWarning, reason, message)
}
