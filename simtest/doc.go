// Package simtest tests code in simulated clusters: one example in a running cluster, or workloads,
// schedules and faults that it explores.
//
//	func TestPodRuns(t *testing.T) {
//		c := simtest.Start(t, cluster.Config{Nodes: 2})
//		simtest.Apply(t, c, manifest) // a claim and a pod, in YAML
//		simtest.WaitFor(t, c, "pods", "default", "web", "condition=Ready")
//	}
//
//	func TestClaimsNeverShareAVolume(t *testing.T) {
//		simtest.Check(t, scenario.Scenario{Nodes: 2},
//			simtest.Budget{Holds: 2, Restarts: true, Schedules: 500},
//			simtest.Claims(1, 4), simtest.Volumes(1, 4))
//	}
//
// [Start] is the entry for tests: it returns a running cluster, live or stepped, that ends with the
// test, and a failed test logs what happened in it. [Apply] creates objects from a manifest, [WaitFor]
// waits for a condition of one, and [Settle] until nothing is left to do. If they fail, they say why.
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
// A failure says where it was found and which line of the test's code made the violating write, and
// ends with a test to paste that replays it. A picture is saved next to it.
//
// A test's own controllers take part as scenario.Scenario.Extra, or are made by a workload with
// drawn parameters: see [Component], [Script] and [Draw]. scenario.Scenario.Interceptors
// breaks a component on purpose, to verify that the rules detect it.
//
// [CustomResource] draws the acts of a user of a custom resource from the schema of its definition. Its
// method Workload is for Check, and its method Converge checks that an operator ends in the state that the
// last spec describes, whatever the specs before.
//
// [Bubble] runs a complete client-go controller with its goroutines against the API server, in a
// bubble of testing/synctest. [Budget.SearchBubble] searches schedules of it, with holds and faults.
// [BubbleTwice] verifies that such a run can be replayed.
package simtest
