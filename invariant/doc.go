// Package invariant has the rules that every run of a simulated cluster must keep, whatever the
// schedule and the faults.
//
//	rules, err := invariant.Select("I1", "I28")
//	checker := invariant.Watch(invariant.World{API: c.Server(), Log: c.Trace(), Now: c.Host().Now}, rules...)
//	err = c.Run(ctx)
//	pending := checker.CheckAtRest()
//	violation := checker.FirstViolation()
//
// A [Rule] has a number, "I1" for safety and "L1" for liveness, and says what it forbids. [Watch]
// applies rules to a [World]. Each rule observes the commits of the API server, the driver calls
// and the deliveries that concern it, as soon as they have taken effect, and reports a [Violation].
// Once faults have stopped and no step is left, [Checker.CheckAtRest] returns what is [Pending]:
// the rule, the object and the reason.
//
// Each rule keeps its own state for each world, and reads the world without leaving a trace. A
// checker is for one goroutine: that of a stepped host or, in a live world, one that stops the
// world meanwhile.
//
// Each file is a family of rules: binding, matching, loss and reclaim of claims, provisioning,
// attaching, mounting. A rule about controllers does not bind users. A controller violates a rule
// only if it could know better: knowledge.go derives that from the log.
//
// The data behind PersistentVolumes is held by a [Backend]: that of the CSI driver, or a plugin of
// the PersistentVolume controller. Rules about data are the same for both, and recycling counts as
// deletion.
//
// What it does not do: it does not search for schedules that violate a rule, and does not compare
// final states.
package invariant
