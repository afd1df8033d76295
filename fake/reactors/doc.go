// Package reactors adds the actions and reactors of client-go's fake clientset to a client of the
// fake API server.
//
// A test that uses client-go's fake clientset, such as
//
//	client := fake.NewClientset(claim) // k8s.io/client-go/kubernetes/fake
//	client.PrependReactor("create", "pods", refuse)
//	…
//	for _, action := range client.Actions() { … }
//
// changes only the constructor:
//
//	client := reactors.NewClientset(claim)
//
// The types are those of k8s.io/client-go/testing. The client records each request as an action,
// and reactors can answer in place of the server. A test without actions and reactors needs
// [fake.NewClientset] only. docs/migrating.md lists the other differences.
//
// # What it has
//
// Actions, ClearActions, PrependReactor, AddReactor, PrependWatchReactor, AddWatchReactor,
// ReactionChain, WatchReactionChain and Tracker. The chains end in a reactor that asks the server. A
// reactor that does not handle an action passes it to the next one, and finally to the server. A
// chain without that last reactor never reaches the server. Typed, dynamic and metadata clients of
// the clientset all use the chains.
//
// # What it does not do
//
//   - Reactors run before the server and are not passed its objects. Use [Clientset.Tracker] or
//     [fake.Clientset.Server] to read and write them.
//   - Typed clients cannot be cast to client-go's fake types, such as FakeCoreV1. Reactors belong
//     to the clientset. Nor can Discovery, which is client-go's own client: [fake.Server.SetVersion]
//     stands for FakedServerVersion.
//   - Informers over the clientset list and then watch, without a watch of initial events, since a
//     watch of a reactor has no bookmarks. Those over [fake.NewClientset] need no list.
//   - Proxy requests and logs of pods are not recorded: they fail.
//   - Reviews and discovery are not recorded.
//
// Upstream: k8s.io/client-go/testing.
package reactors
