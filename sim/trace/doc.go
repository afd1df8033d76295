// Package trace is the record of every action in a simulated world.
//
//	log := host.Log() // of a sim.Host
//	for _, r := range log.Records() {
//		if words, ok := trace.Describe(r); ok {
//			fmt.Println(trace.DescribeTask(r.Task), words)
//		}
//	}
//
// A [Record] stands for one action: an API request, a driver call, a delivery to a cache, a piece
// of work, a timer or a sleep. Records are appended to a [Log] in the order in which the actions
// took effect. The text form of a log has one line per record and can be parsed. Under the stepped
// host the same choices produce the same text, byte for byte.
//
// A record of an API write keeps the object before and after it. Both are immutable. [Describe] can
// therefore say later, in words, what the write meant; recording itself costs nothing more.
//
// [Sometimes] and [Reachable] note in the log whether a condition held that should hold in some run.
//
// # What it does not do
//
// Package sim/trace/picture draws traces, package sim replays schedules, and package
// internal/causality computes which process had seen what. A log keeps every record, unless [Log.Max]
// limits it.
package trace
