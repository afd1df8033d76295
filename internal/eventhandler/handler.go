package eventhandler

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// Add registers handlers with an informer. changed is called for each added object, with a nil old
// object, and for each updated one. gone, which may be nil, is called with the last known state of
// each object that was deleted or replaced by another of its name. They are called on the goroutine
// of the informer's handlers. It panics if the informer accepts no handler, or has objects of
// another type.
func Add[T any, P interface {
	*T
	metav1.Object
}](informer cache.SharedIndexInformer, changed func(old, current P), gone func(P)) {
	if _, err := informer.AddEventHandler(&handler[T, P]{changed, gone}); err != nil {
		panic("eventhandler: add handler to informer: " + err.Error())
	}
}

// A handler calls two typed functions. gone may be nil.
type handler[T any, P interface {
	*T
	metav1.Object
}] struct {
	changed func(old, current P)
	gone    func(P)
}

func (h *handler[T, P]) OnAdd(obj any, _ bool) { h.changed(nil, obj.(P)) }

func (h *handler[T, P]) OnUpdate(old, current any) {
	before, after := old.(P), current.(P)
	if before.GetUID() != after.GetUID() {
		h.OnDelete(before)
		before = nil
	}
	h.changed(before, after)
}

func (h *handler[T, P]) OnDelete(obj any) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	if h.gone != nil {
		h.gone(obj.(P))
	}
}
