package eventhandler

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// Add calls changed for each object that comes (was is nil) or changes, and gone, which may be nil, with the last known
// state of each that goes, or gives way to another of its name. They are called as the informer calls its handlers. An
// informer that takes no handler any more, or is of another type, panics.
func Add[T any, P interface {
	*T
	metav1.Object
}](informer cache.SharedIndexInformer, changed func(was, is P), gone func(P)) {
	if gone == nil {
		gone = func(P) {}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { changed(nil, obj.(P)) },
		UpdateFunc: func(was, is any) {
			if was.(P).GetUID() != is.(P).GetUID() {
				gone(was.(P))
				was = P(nil)
			}
			changed(was.(P), is.(P))
		},
		DeleteFunc: func(obj any) {
			if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = unknown.Obj
			}
			gone(obj.(P))
		},
	})
	if err != nil {
		panic("listen: informer takes no handler: " + err.Error())
	}
}
