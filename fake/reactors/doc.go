// Package reactors gives a client of the fake API server what tests of client-go's fake clientset rely on besides objects:
// it records each request as an action, and lets reactors answer in the server's place.
//
// A test that now says
//
//	client := fake.NewClientset(claim) // k8s.io/client-go/kubernetes/fake
//	client.PrependReactor("create", "pods", refuse)
//	…
//	for _, action := range client.Actions() { … }
//
// says instead
//
//	client := reactors.NewClientset(claim)
//
// and keeps the rest, as the types are those of k8s.io/client-go/testing. One that uses neither actions nor reactors needs
// [fake.NewClientset] only. What else such a test meets stands in docs/migrating.md.
//
// # What it has
//
// Actions, ClearActions, PrependReactor, AddReactor, PrependWatchReactor, AddWatchReactor, ReactionChain and
// WatchReactionChain. The chains end in a reactor that lets the server answer: a reactor that does not handle an action
// leaves it to the next, and at last to the server; a chain without that last reactor never comes to the server. Typed,
// dynamic and metadata clients of the clientset all go through the chains.
//
// # What it does not do
//
//   - Reactors run before the server is asked and see of it nothing: there is no object tracker. The server's objects are
//     put in and looked at through the server: [fake.Clientset.Server].
//   - Typed clients cannot be cast to client-go's fake types (FakeCoreV1 and the like); the reactors are on the clientset.
//   - Proxy requests and logs of pods are not recorded: they fail.
//   - Reviews and discovery are not recorded.
package reactors
