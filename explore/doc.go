// Package explore searches for a schedule under which a scenario fails.
//
//	s, err := scenario.Find("claim-deleted-while-pod-starts")
//	report, err := explore.Search(ctx, s, explore.Config{Strategy: explore.Holds, Depth: 2})
//	if report.Failure != nil {
//		fmt.Print(scenario.Story(report.Failure.Scenario, report.Failure.Result))
//	}
//
// The default order is fair and keeps caches fresh: deliveries, tasks in flight, the worker that
// ran longest ago, users. A search deviates from it in as few places as possible. [Holds] runs
// every schedule with one task held at one step, then two. [Restarts] runs every crash at every
// call of a process, with fresh and with old lists. [Faults] runs every fault at every call. These
// searches are systematic: they end with a statement such as "no failure with at most 2 holds", and
// the first failing schedule is short by construction. [PCT], [POS] and [Random] draw schedules and
// faults from seeds, and so does [Walk]. [Exhaustive] is a model checker: it runs every order of events,
// continues each state once, and leaves out orders that differ only in independent steps. A state is what each
// part of the world knows, in whatever order it got to know it. Small worlds complete, with the number of
// histories of all orders. [Portfolio] runs the systematic searches, and draws a schedule after each of theirs.
//
// A history is what a schedule looks like to the rules. Each report counts them, since a search that sees
// no new ones repeats itself.
//
// [Config.Coverage] says which calls met which stale caches and faults, and which never did, and
// trace.Sometimes lets components and rules say what should happen in some schedule. A search with
// [Config.Corpus] goes on from what earlier ones were the first to exercise.
//
// If the scenario selects no components, at most a quarter of the schedules are those of a smaller
// world: that of the components that act in the default order.
//
// A [Failure] is a scenario with its schedule: text that can be saved, read and replayed. Its
// schedule was run twice with the same trace and then shrunk, within a bound. It says in which
// schedule it was found, where the user's code made the request that violated the rule, and which
// smaller world to try.
//
// # What it does not do
//
// Package simtest draws workloads: the acts of the users.
package explore
