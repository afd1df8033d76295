// Package session moves a world by hand, one action at a time: for somebody who wants to see what happens, and who knows
// what while it does.
//
// A [Session] is a stepped world and a list of operations ([Ops]), each a line of text. Some are what a user does
// ("create claim data 64Mi"), some move the world ("step", "rest"), some say what is not to happen yet or is to go wrong
// ("hold pvcontroller", "crash kubelet(node-1)"). Between two of them the world stands still, and can be looked at: what
// could happen next ([Session.Next]), how things are ([Session.Objects]), and who has not heard of it yet
// ([Session.StaleComponents]).
//
// The world is deterministic: the same operations lead to the same world, in a millisecond or so. So the list is all there
// is to save: a session is taken up again by playing it, and goes back by playing less of it.
//
//	s, err := session.Of("create claim data 64Mi", "rest").Play()
//
// A session is for one goroutine. Not here: looking for an order of events that breaks a rule, which is package explore;
// and worlds on real devices, which is package cluster.
package session
