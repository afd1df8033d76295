// Package ctrlruntime runs an operator that uses controller-runtime, unchanged, as a component of a
// simulated cluster.
//
//	operator := ctrlruntime.Component(ctrlruntime.Config{
//		Name: "operator", Scheme: scheme, CRDDirectoryPaths: []string{"config/crd/bases"},
//		Setup: func(mgr manager.Manager) error { return (&Reconciler{Client: mgr.GetClient()}).SetupWithManager(mgr) },
//	})
//	c, err := cluster.New(cluster.Config{Stepped: &sim.SteppedConfig{}, Extra: []cluster.Component{operator}})
//
// Setup gets a manager of controller-runtime. It is called at the beginning and after each crash.
// The manager's cache is the one of the process: it lags as the cache of any component does. The
// manager's client reads from that cache and writes to the server. Each write is a suspension
// point, and so is each read of an unstructured object, which controller-runtime does not cache by
// default.
//
// Controllers keep their sources, handlers, predicates, indices and reconcilers, and their
// MaxConcurrentReconciles. Their work queues and workers are those of package sim, so that the host
// decides which one runs next. Events of the manager's recorders are requests of the process. A bare
// reconcile.Reconciler needs a Setup of one line:
//
//	return builder.ControllerManagedBy(mgr).For(&v1.Box{}).Complete(reconciler)
//
// The same component runs in a live world, where Stepped is nil.
//
// # Rules for reconcilers
//
// A reconciler runs in a task. It must not wait for anything but its requests and the process, and
// must not start goroutines: in a stepped world, a request or a read of the cache by such a goroutine
// is refused, and the run ends with an error that names the line that started it. So does a run in
// which such a goroutine is found to outlive its reconcile; only the first thousand reconciles are
// checked. The function Setup makes no API requests.
//
// # What it does not do
//
// These are refused when the component starts, with an error that says what to do:
//
//   - Runnables other than controllers, because the host cannot schedule their goroutines; sources
//     that are channels, for the same reason; and Manager.Start.
//   - Webhooks.
//   - Controllers of other requests than reconcile.Request, and those of an unknown version of
//     controller-runtime.
//
// Health and readiness checks, metrics handlers and leader election are accepted and ignored: the
// process is elected from the beginning. Options of the cache, such as namespaces, selectors and
// transformations, do not exist. A component runs in simulated clusters only.
//
// Differs: rate limiters, priorities and ReconciliationTimeout are ignored. Back-off is the one of
// [sim.Queue]. The context of a reconciler has no reconcile ID. Both recorders write core events.
//
// Upstream: sigs.k8s.io/controller-runtime (v0.23 to v0.25).
package ctrlruntime
