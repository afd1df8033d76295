package ctrlruntime

import (
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrl "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/volsim/volsim/cluster"
)

// managed is what is added to a manager.
type managed struct {
	asManager   manager.Manager
	process     cluster.ComponentContext
	caches      *processCache
	controllers []*controller
}

// A simManager is a manager that keeps the controllers instead of starting them. Its parameter is
// the type that GetEventRecorder returns, which depends on the version of controller-runtime.
type simManager[R any] struct {
	manager.Manager
	*managed
}

// newManager returns a manager.
func newManager(inner manager.Manager, p cluster.ComponentContext, caches *processCache) *managed {
	m := &managed{process: p, caches: caches}
	m.asManager = wrap(inner, m, inner.GetEventRecorder).(manager.Manager)
	return m
}

func wrap[R any](inner manager.Manager, m *managed, _ func(string) R) any {
	return &simManager[R]{inner, m}
}

// GetEventRecorder implements manager.Manager. The recorder writes core events.
func (m *simManager[R]) GetEventRecorder(name string) R {
	return any(eventRecorder{m.process.Recorder(name)}).(R)
}

// GetEventRecorderFor implements manager.Manager.
func (m *simManager[R]) GetEventRecorderFor(name string) record.EventRecorder {
	return m.process.Recorder(name)
}

// GetCache implements manager.Manager. Handlers are registered in the order of these calls.
func (m *simManager[R]) GetCache() cache.Cache { return m.caches.handle() }

// GetFieldIndexer implements manager.Manager.
func (m *simManager[R]) GetFieldIndexer() client.FieldIndexer { return m.caches.handle() }

// AddMetricsServerExtraHandler implements manager.Manager. There is no metrics server.
func (m *simManager[R]) AddMetricsServerExtraHandler(string, http.Handler) error { return nil }

// Add implements manager.Manager. It accepts controllers only.
func (m *simManager[R]) Add(r manager.Runnable) error {
	c, ok := r.(ctrl.Controller)
	if !ok {
		return fmt.Errorf("runnable %T: a stepped world cannot schedule its goroutines; "+
			"use a reconciler that requeues, or a task of a cluster.Component", r)
	}
	added, err := newController(m.process.Process, c)
	if err != nil {
		return err
	}
	m.controllers = append(m.controllers, added)
	return nil
}

// An eventRecorder has the methods of the recorders in package events.
type eventRecorder struct{ record.EventRecorder }

// Eventf records an event.
//
// Differs: the event is a core event, without its related object and its action.
func (r eventRecorder) Eventf(regarding, _ runtime.Object, eventType, reason, _, note string, args ...any) {
	r.EventRecorder.Eventf(regarding, eventType, reason, note, args...)
}

// AnnotatedEventf records an event with annotations.
func (r eventRecorder) AnnotatedEventf(annotations map[string]string, regarding, _ runtime.Object,
	eventType, reason, _, note string, args ...any,
) {
	r.EventRecorder.AnnotatedEventf(regarding, annotations, eventType, reason, note, args...)
}
