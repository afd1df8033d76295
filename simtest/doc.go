// Package simtest makes a test explore workloads, schedules and faults instead of running one
// example.
//
//	func TestClaimsNeverShareAVolume(t *testing.T) {
//		simtest.Check(t, scenario.Scenario{Nodes: 2},
//			simtest.Budget{Holds: 2, Restarts: true, Schedules: 500},
//			simtest.Claims(1, 4), simtest.Volumes(1, 4))
//	}
//
// [Start] is the entry for tests of all other kinds: it returns a running cluster that ends with the
// test, and that a failed test shows. [Apply] creates objects from a manifest, [WaitFor] waits for a
// condition of one, and [Settle] until nothing is left to do.
//
// [Check] is a property-based test: it draws workloads with pgregory.net/rapid and searches the
// schedules of each. rapid shrinks the workload; the schedule is short as it is found. [Explore] is
// the property alone, for a test that calls rapid.Check. A [Workload] draws acts into a [Draft]; a
// test can define its own. [Search] searches the schedules of one scenario without drawing users;
// [Complete] also requires that the bound is covered completely. [Replay] runs one schedule.
//
// All of them, except Explore, save a failure in testdata/explore/TEST, as a scenario with its
// schedule, and run the saved failures first. They do not write if VOLSIM_KEEP is "no". The log
// says for each saved file whether it fails again, passes, or no longer fits the world.
//
// A test's own controllers take part as scenario.Scenario.Extra. scenario.Scenario.Interceptors
// breaks a component on purpose, to verify that the rules detect it.
//
// [Bubble] runs a complete client-go controller with its goroutines against the API server, in a
// bubble of testing/synctest. [BubbleTwice] verifies that such a run can be replayed.
package simtest
