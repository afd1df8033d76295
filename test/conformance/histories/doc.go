// Package histories is what comparisons of ours with upstream's over drawn histories have in common: a [History] is drawn, both
// live through it in worlds of their own, and the [State] of the two worlds is compared after each step.
//
// Upstream decides by the order of maps, so that the same history may end in several ways. A [Pair] has upstream live through one
// that ended otherwise again and again, and ours with its strands moved in other orders, until they once did the same. A
// difference that is there on purpose ends a history.
//
// rapid draws the histories, the same each time unless it is told a seed, and makes one that shows a difference small.
package histories
