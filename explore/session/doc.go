// Package session steps a world interactively, one operation at a time, and shows its state in
// between.
//
//	s, err := session.New("create claim data 64Mi", "rest").Play()
//	if err != nil {
//		return err
//	}
//	defer s.Close()
//	fmt.Print(s.Story(), s.StateTable())
//
// A [Session] is a stepped world and a list of operations ([Ops]), each a line of text. Some are
// acts of a user ("create claim data 64Mi"), some run the world ("step", "rest"), some hold a task
// or inject a fault ("hold pvcontroller", "crash kubelet(node-1)"). Between two operations the
// world does not change and can be inspected: the tasks that can run next ([Session.Next]), the
// objects ([Session.Objects]), and the caches that are stale ([Session.StaleComponents]).
//
// The world is deterministic: the same operations lead to the same state, within about a
// millisecond. The list of operations is therefore all that needs saving ([Session.Replayable]). To
// resume a session, play the list; to go back, play a shorter one.
//
// The list may begin with a scenario: headers, users, a schedule. The users are then tasks of the
// world, and its steps follow the schedule. A counterexample that package explore saved can thus be
// stepped.
//
// A session is not safe for concurrent use.
//
// # What it does not do
//
// Package explore searches for an order of events that violates a rule. Package cluster runs worlds
// on real devices.
package session
