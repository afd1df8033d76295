// Package apiserver serves the fake API server by HTTP requests, in memory or over a socket.
//
//	server := fake.NewServer(fake.Config{})
//	config := apiserver.NewConfig(server, sim.DirectCaller()) // in memory
//	client, err := kubernetes.NewForConfig(config)
//	handler := apiserver.NewHandler(server, apiserver.HandlerConfig{Caller: caller})
//	listener, err := apiserver.Listen(apiserver.ListenConfig{Handler: handler}) // by HTTPS
//	err = listener.Advertise(ctx, client) // in the service default/kubernetes
//
// HandlerConfig.Audit records requests; see package fake/audit.
//
// A request takes the same path in both cases. Its URL names a resource and a verb (path.go).
// Headers and query are negotiated and decoded (negotiate.go, options.go), then the body
// (decode.go). A [fake.ResourceClient] acts, and its result is encoded (encode.go). No code depends
// on a particular resource, except the refusal of connections to pods, services and nodes. The
// answer is a value: the handler writes it to a connection, the transport returns it. A watch's
// answer holds a cursor, from which reads pull the events. The answer of a kubelet is not a value: the kubelet
// writes a log itself, and takes over the connection of a command (passed.go).
//
// In memory, a request runs on the goroutine that makes it. So a stepped host suspends the client's
// code at each request, and can unwind it.
//
// # What it does not do
//
//   - Priority and fairness: there are limits of requests in flight instead (limits.go). A user is
//     authenticated by [Listen] only.
//   - Attach, port-forward and proxy, which are refused, except requests to kubelets (see
//     fake.Config.Kubelets). Logs and exec are the kubelets' too, and refused without. Watches and
//     logs over websockets.
//   - CBOR, which is refused, as the real server does by default.
//   - Hashes of storage versions in discovery.
//
// Deviations are marked with "Differs:" where they are implemented.
//
// Upstream: k8s.io/apiserver pkg/endpoints.
package apiserver
