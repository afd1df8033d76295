// Package histories compares two implementations over drawn histories: both execute a [History] in
// worlds of their own, and the [State] of the two worlds is compared after each step.
//
//	func TestMain(m *testing.M) { histories.Main(m) }
//
//	var pair = histories.Pair[step, *world, mutation]{
//		Ours: runOurs, Upstream: runUpstream, Excuse: histories.ExcuseBy(deliberate, diskOf),
//	}
//
//	func TestHistories(t *testing.T) { pair.Run(t, 20, draw, 20) }
//
//	func TestMutantsAreFound(t *testing.T) { pair.FindMutants(t, draw, mutants) }
//
// Upstream decides in map order, so that one history may have several results. If the results
// differ, a [Pair] executes upstream again, and ours with its tasks in other orders, until the
// results are equal once. [Limits] bound the executions. A deliberate [Difference] ends a history.
//
// rapid draws the histories, the same ones in each run unless a seed is given, and shrinks a
// history that shows a difference.
//
// What it does not do: it compares neither times nor the number of attempts.
package histories
