package ctrlruntime

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/reference"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrl "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/sim/trace"
)

// managed is what is added to a manager.
type managed struct {
	asManager   manager.Manager
	process     cluster.ComponentContext
	caches      *processCache
	controllers []*controller
	err         error // of a method that cannot return one
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
	return any(eventRecorder{m.recorder(name)}).(R)
}

// GetEventRecorderFor implements manager.Manager.
func (m *simManager[R]) GetEventRecorderFor(name string) record.EventRecorder {
	return m.recorder(name)
}

// Elected implements manager.Manager. The process is elected from the beginning.
func (*simManager[R]) Elected() <-chan struct{} { return elected }

// elected is closed.
var elected = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Start implements manager.Manager. It fails: the host runs the controllers.
func (*simManager[R]) Start(context.Context) error {
	return errors.New("the manager of a ctrlruntime.Component must not be started: " +
		"return from Setup, and run the cluster")
}

// GetWebhookServer implements manager.Manager. Its use makes Setup fail: a webhook that is not
// called would let the operator pass.
func (m *simManager[R]) GetWebhookServer() webhook.Server {
	m.err = errors.New("webhooks are not called: leave SetupWebhookWithManager out of Setup")
	return m.Manager.GetWebhookServer()
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

// recorder returns a recorder whose events are requests of the process.
func (m *managed) recorder(name string) record.EventRecorder {
	return kindRecorder{m.process.Recorder(name), m.process, m.caches.scheme}
}

// A kindRecorder records events about objects of a scheme, which may lack their kind.
type kindRecorder struct {
	recorder record.EventRecorder
	process  cluster.ComponentContext
	scheme   *runtime.Scheme
}

// reference returns a reference to an object, nil if no event can be recorded.
func (r kindRecorder) reference(object runtime.Object, reason string) *corev1.ObjectReference {
	if r.process.Process.CheckTask(trace.Action{Kind: trace.KindWork, Verb: "event", Object: reason}) != nil {
		return nil
	}
	ref, err := reference.GetReference(r.scheme, object)
	if err != nil { // as upstream's recorder, which logs it
		r.process.Process.Record(trace.Action{Kind: trace.KindWork, Verb: "event", Object: reason}, trace.Outcome{Err: err})
		return nil
	}
	return ref
}

// Event implements record.EventRecorder.
func (r kindRecorder) Event(object runtime.Object, eventType, reason, message string) {
	if ref := r.reference(object, reason); ref != nil {
		r.recorder.Event(ref, eventType, reason, message)
	}
}

// Eventf implements record.EventRecorder.
func (r kindRecorder) Eventf(object runtime.Object, eventType, reason, format string, args ...any) {
	r.Event(object, eventType, reason, fmt.Sprintf(format, args...))
}

// AnnotatedEventf implements record.EventRecorder.
func (r kindRecorder) AnnotatedEventf(object runtime.Object, annotations map[string]string, eventType, reason, format string, args ...any) {
	if ref := r.reference(object, reason); ref != nil {
		r.recorder.AnnotatedEventf(ref, annotations, eventType, reason, format, args...)
	}
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
func (r eventRecorder) AnnotatedEventf(regarding, _ runtime.Object, annotations map[string]string,
	eventType, reason, _, note string, args ...any,
) {
	r.EventRecorder.AnnotatedEventf(regarding, annotations, eventType, reason, note, args...)
}
