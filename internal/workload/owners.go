package workload

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/internal/eventhandler"
)

// Owners finds the owners of one kind that a change of a dependent concerns. Its functions read a
// cache, and may fail only because an object does not exist.
type Owners[T metav1.Object] struct {
	Kind     string
	Get      func(namespace, name string) (T, error)
	List     func(namespace string) ([]T, error)
	Selector func(T) *metav1.LabelSelector
	// IgnoresAdded makes Watch ignore a dependent that is added with an owner, as a ControllerRevision
	// of a DaemonSet. One that is being deleted is not ignored.
	IgnoresAdded bool
}

// Of returns the owner that controls an object, if it exists.
func (o Owners[T]) Of(obj metav1.Object) (owner T, ok bool) {
	ref := metav1.GetControllerOfNoCopy(obj)
	if ref == nil || ref.Kind != o.Kind {
		return owner, false
	}
	owner, err := o.Get(obj.GetNamespace(), ref.Name)
	return owner, err == nil && owner.GetUID() == ref.UID
}

// Selecting returns the owners that select an object, by name. An empty selector selects nothing.
func (o Owners[T]) Selecting(obj metav1.Object) []T {
	if len(obj.GetLabels()) == 0 {
		return nil
	}
	all, err := o.List(obj.GetNamespace())
	if err != nil {
		return nil // a lister does not fail
	}
	var matching []T
	for _, owner := range all {
		selector, err := metav1.LabelSelectorAsSelector(o.Selector(owner))
		if err == nil && !selector.Empty() && selector.Matches(labels.Set(obj.GetLabels())) {
			matching = append(matching, owner)
		}
	}
	slices.SortFunc(matching, func(a, b T) int { return strings.Compare(a.GetName(), b.GetName()) })
	return matching
}

// Concern reports whether an object is controlled by an object of the kind, or is an orphan that an
// owner selects.
func (o Owners[T]) Concern(obj metav1.Object) bool {
	if ref := metav1.GetControllerOfNoCopy(obj); ref != nil {
		return ref.Kind == o.Kind
	}
	return len(o.Selecting(obj)) > 0
}

// Watch adds a handler to an informer of dependents. It calls enqueue for the owners that a change
// concerns: the present and the previous one, and those that might adopt an orphan.
//
// Upstream: the handlers of pods of pkg/controller/replicaset, pkg/controller/statefulset and others
// (v1.36).
func Watch[D any, P interface {
	*D
	metav1.Object
}, T metav1.Object](informer cache.SharedIndexInformer, o Owners[T], enqueue func(T)) {
	controlling := func(obj P) {
		if owner, ok := o.Of(obj); ok {
			enqueue(owner)
		}
	}
	eventhandler.Add(informer, func(old, obj P) {
		if old != nil {
			if old.GetResourceVersion() == obj.GetResourceVersion() {
				return
			}
			if uidOf(metav1.GetControllerOfNoCopy(old)) != uidOf(metav1.GetControllerOfNoCopy(obj)) {
				controlling(old)
			}
		}
		switch {
		case metav1.GetControllerOfNoCopy(obj) != nil:
			if old != nil || !o.IgnoresAdded || obj.GetDeletionTimestamp() != nil {
				controlling(obj)
			}
		case obj.GetDeletionTimestamp() == nil && (old == nil || metav1.GetControllerOfNoCopy(old) != nil ||
			!equality.Semantic.DeepEqual(old.GetLabels(), obj.GetLabels())):
			for _, owner := range o.Selecting(obj) {
				enqueue(owner)
			}
		}
	}, controlling)
}

func uidOf(ref *metav1.OwnerReference) types.UID {
	if ref == nil {
		return ""
	}
	return ref.UID
}
