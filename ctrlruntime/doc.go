// Package ctrlruntime runs an operator that uses controller-runtime, unchanged, as a component of a
// simulated cluster.
//
//	operator := ctrlruntime.Component(ctrlruntime.Config{
//		Name: "operator", Scheme: scheme, Install: installDefinitions,
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
// Controllers keep their sources, handlers, predicates, indices and reconcilers. Their work queues
// and workers are those of package sim, so that the host decides which one runs next. A reconciler
// runs in a task. It must not start goroutines or wait for anything but its requests and the
// process. The function Setup makes no API requests.
//
// # What it does not do
//
//   - Runnables other than controllers: Manager.Add refuses them, because the host cannot schedule
//     their goroutines. So it does with sources that are channels.
//   - Controllers of other requests than reconcile.Request.
//   - Webhooks, leader election, metrics servers and health probes.
//   - Options of the cache, such as namespaces, selectors and transformations.
//   - Components of a real cluster.
//
// Differs: rate limiters and priorities are ignored. Back-off is the one of [sim.Queue]. The context
// of a reconciler has no reconcile ID.
//
// Upstream: sigs.k8s.io/controller-runtime (v0.23 to v0.25).
package ctrlruntime
