// Package simtest is for tests that have a world decide what could have gone otherwise.
//
// [Check] draws what the users of a world do, with pgregory.net/rapid, and for each workload searches the schedules: what
// users do is shrunk by rapid, the order of events is short as it is found. [Explore] is the property by itself, for a test
// that calls rapid.Check.
//
//	func TestClaimsNeverShareAVolume(t *testing.T) {
//		simtest.Check(t, scenario.Scenario{Nodes: 2}, simtest.Budget{Holds: 2, Restarts: true, Schedules: 500},
//			simtest.Claims(1, 4), simtest.Volumes(1, 4))
//	}
//
// A [Workload] draws acts into a [Draft]; a test may bring its own. [Holds], [Exhaustive], [PCT], [Random] and [Search] search
// the schedules of one scenario, without drawing users; [Replay] runs one schedule.
//
// All of them, except Explore, keep a failure in testdata/explore/TEST as a scenario with its schedule, and run what is
// kept there first. They do not write if VOLSIM_KEEP is "no". Whatever happens with a kept file is logged: it fails again, it
// passes, or its schedule does not fit the world any more.
//
// A test's own programs take part as scenario.Scenario.Extra, and scenario.Scenario.Between breaks a part to see who notices.
//
// [Bubble] runs a whole controller of client-go, goroutines and all, in a bubble of testing/synctest against the API
// server; [BubbleTwice] finds out whether that can be replayed.
package simtest
