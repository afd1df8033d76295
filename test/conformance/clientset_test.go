package conformance_test

import (
	"fmt"
	"slices"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clientgo "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// watchBuffer is how many events may wait for a watcher before writers block.
const watchBuffer = 1_000

// A versioned clientset adds to client-go's fake clientset what a controller with read-modify-write
// needs: UIDs, resource versions, conflicts, and watches that do not panic when they lag by a
// hundred events. It does not support deletion.
type versioned struct {
	tracker clienttesting.ObjectTracker
	react   clienttesting.ReactionFunc // client-go's own
	wrote   func(obj any)              // called with written objects

	mu       sync.Mutex
	revision int64
	kinds    map[schema.GroupVersionResource]schema.GroupVersionKind // of listed resources
	watchers map[string][]*watch.FakeWatcher                         // by resource
}

// newVersionedClientset creates such a clientset. It calls wrote with each written object, which is
// read-only.
func newVersionedClientset(wrote func(obj any)) *clientgo.Clientset {
	c := clientgo.NewSimpleClientset()
	v := &versioned{
		tracker: c.Tracker(), react: clienttesting.ObjectReaction(c.Tracker()), wrote: wrote,
		kinds:    map[schema.GroupVersionResource]schema.GroupVersionKind{},
		watchers: map[string][]*watch.FakeWatcher{},
	}
	c.PrependReactor("create", "*", v.write)
	c.PrependReactor("update", "*", v.write)
	c.PrependReactor("patch", "*", v.patch)
	c.PrependReactor("list", "*", v.list)
	c.PrependWatchReactor("*", v.watch)
	return c
}

// write creates or updates an object.
func (v *versioned) write(action clienttesting.Action) (bool, runtime.Object, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	obj := action.(clienttesting.CreateAction).GetObject() // same method as UpdateAction
	m, err := meta.Accessor(obj)
	if err != nil {
		return false, nil, nil
	}
	kind := watch.Added
	if action.GetVerb() == "update" {
		kind = watch.Modified
		if err := v.check(action, m); err != nil {
			return true, nil, err
		}
	}
	v.revision++
	m.SetResourceVersion(strconv.FormatInt(v.revision, 10))
	if m.GetUID() == "" {
		m.SetUID(types.UID(fmt.Sprint("uid-", v.revision)))
	}
	_, stored, err := v.react(action)
	if err != nil {
		return true, nil, err
	}
	for _, w := range v.watchers[action.GetResource().Resource] {
		w.Action(kind, stored.DeepCopyObject())
	}
	v.wrote(stored)
	return true, stored, nil
}

// patch patches an object.
func (v *versioned) patch(action clienttesting.Action) (bool, runtime.Object, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, stored, err := v.react(action)
	if err != nil {
		return true, nil, err
	}
	m, err := meta.Accessor(stored)
	if err != nil {
		return true, nil, err
	}
	v.revision++
	m.SetResourceVersion(strconv.FormatInt(v.revision, 10))
	if err := v.tracker.Update(action.GetResource(), stored, action.GetNamespace()); err != nil {
		return true, nil, err
	}
	for _, w := range v.watchers[action.GetResource().Resource] {
		w.Action(watch.Modified, stored.DeepCopyObject())
	}
	v.wrote(stored)
	return true, stored, nil
}

// check returns a conflict unless an update is based on the stored object.
func (v *versioned) check(action clienttesting.Action, m metav1.Object) error {
	stored, err := v.tracker.Get(action.GetResource(), action.GetNamespace(), m.GetName())
	if err != nil {
		return err
	}
	was, err := meta.Accessor(stored)
	if err != nil {
		return err
	}
	if m.GetResourceVersion() != was.GetResourceVersion() {
		return apierrors.NewConflict(action.GetResource().GroupResource(), m.GetName(), fmt.Errorf("object has changed"))
	}
	return nil
}

// list sets the revision of a list.
func (v *versioned) list(action clienttesting.Action) (bool, runtime.Object, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.kinds[action.GetResource()] = action.(clienttesting.ListActionImpl).GetKind()
	_, list, err := v.react(action)
	if err != nil {
		return true, nil, err
	}
	m, err := meta.ListAccessor(list)
	if err == nil {
		m.SetResourceVersion(strconv.FormatInt(v.revision, 10))
	}
	return true, list, err
}

// watch starts with the objects written since the preceding list.
func (v *versioned) watch(action clienttesting.Action) (bool, watch.Interface, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	missed, err := v.since(action.GetResource(), action.(clienttesting.WatchActionImpl).ListOptions.ResourceVersion)
	if err != nil {
		return true, nil, err
	}
	w := watch.NewFakeWithChanSize(watchBuffer+len(missed), false)
	for _, obj := range missed {
		w.Modify(obj)
	}
	resource := action.GetResource().Resource
	v.watchers[resource] = append(v.watchers[resource], w)
	return true, w, nil
}

// since returns the objects written after a revision.
func (v *versioned) since(resource schema.GroupVersionResource, revision string) ([]runtime.Object, error) {
	asked, err := strconv.ParseInt(revision, 10, 64)
	if err != nil || asked == v.revision {
		return nil, err
	}
	list, err := v.tracker.List(resource, v.kinds[resource], metav1.NamespaceAll)
	if err != nil {
		return nil, err
	}
	all, err := meta.ExtractList(list)
	return slices.DeleteFunc(all, func(obj runtime.Object) bool {
		m, err := meta.Accessor(obj)
		if err != nil {
			return true
		}
		is, err := strconv.ParseInt(m.GetResourceVersion(), 10, 64)
		return err != nil || is <= asked
	}), err
}
