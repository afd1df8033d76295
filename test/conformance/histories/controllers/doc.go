// Package controllers compares our controllers with upstream's over drawn histories, in worlds that
// consist of an API server, its users, kubelet and garbage collector. Ours run on a stepped host,
// upstream's in a bubble of testing/synctest:
//
//	var pair = controllers.Pair[act, *world]{
//		NewWorld: newWorld, Ours: ours, Upstream: upstreams, Ticks: 20,
//	}.Histories(deliberate)
//
//	func TestHistories(t *testing.T) { pair.Run(t, 2, drawHistory, 10) }
//
// A history is a list of [Step]: an act of a user, and perhaps a fault of the controllers' next
// requests. After it the world ticks some times, and its state is compared.
package controllers
