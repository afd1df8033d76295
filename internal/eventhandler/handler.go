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
	if gone == nil {
		gone = func(P) {}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { changed(nil, obj.(P)) },
		UpdateFunc: func(old, current any) {
			if old.(P).GetUID() != current.(P).GetUID() {
				gone(old.(P))
				old = P(nil)
			}
			changed(old.(P), current.(P))
		},
		DeleteFunc: func(obj any) {
			if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = unknown.Obj
			}
			gone(obj.(P))
		},
	})
	if err != nil {
		panic("eventhandler: add handler to informer: " + err.Error())
	}
}
