// Package scenario is the language in which a small world and what happens in it are written down, and what runs it.
//
// A [Scenario] is text that reads as a story and parses back: what the world is made of, what its users do, one act a
// line, and maybe the schedule under which it goes wrong. [Scenario.Run] lives it once, under one strategy, with every
// rule of package invariant at work, and says how it ended.
//
//	# The claim goes while its pod is being created.
//	parts: pvcontroller, pvcprotection
//	user alice
//	  create volume disk 1Gi
//	  create claim data 1Gi
//	  wait claim data Bound
//	  create pod web data on=node-1
//	user bob
//	  delete claim data
//	schedule
//	  16 hold: pvcprotection/cache pods
//	violates: I28
//
// Headers, before the users: "nodes: N" (2), "volumes-per-node: N" (any number), "selinux: on"
// (volumes of one pod alone are mounted with its label), "parts: NAME, …" (all of the control plane; "parts: none" for none), "faults: …"
// (what a random search lets go wrong), "rules: I1, …" (all), "ends: differ" (different schedules may rightly end differently).
// The set-up of the world, with all parts up and nodes registered, is not part of the schedule: step 1 is the first after it.
//
// Not here: looking for the schedule. See package explore.
package scenario
