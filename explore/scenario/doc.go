// Package scenario is the text form of a small world and its users, and runs it.
//
//	# The claim is deleted while its pod is being created.
//	components: pvcontroller, pvcprotection
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
// [Parse] reads a [Scenario]: the components of the world, the acts of its users, and perhaps the
// schedule under which it fails. [Scenario.Run] runs it once, under one strategy, checks every rule
// of package invariant, and returns a [Result]. [Story] explains the result as a list of steps,
// [Picture] as a drawing.
//
// Headers, before the users:
//
//	nodes: N                 number of nodes (default 2)
//	volumes-per-node: N      attachable volumes per node (default unlimited)
//	selinux: on              volumes of a single pod are mounted with its label
//	node-leases: on          kubelets renew Leases; a node that does not for 50 s is dead
//	storage-capacity: 1m     the free capacity is published, and refreshed this often
//	components: NAME, …      components of the control plane (default all; "none" for none)
//	local-storage: on        classes of localstorage.volsim.dev get volume groups; see cluster.Config
//	snapshots: on            snapshots of claims and of groups, with a default class; see cluster.Config
//	containers: shell        commands of containers are executed; see cluster.Config
//	local-disks: CLASS=DIR,… disks of nodes in a directory become local volumes of a class
//	definitions: PATH, …     files, or directories of files, with definitions of custom resources
//	faults: …                what a randomized search injects
//	rules: I1, …             rules to check (default all)
//	ends: differ             schedules may legitimately end in different states
//	drawn: LABEL JSON        a parameter of a component or script of a test
//	sometimes: NAME          a condition of trace.Sometimes that some schedule of a search must meet
//
// An [Act] of a user concerns objects of any resource:
//
//	user alice
//	  apply config/samples/web.yaml
//	  patch widget web spec.size=2Gi
//	  wait widget web condition=Ready
//	  apply
//	    apiVersion: v1
//	    kind: Secret
//	    metadata: {name: web}
//	  delete secret web
//
// Relative paths begin in the directory of the file, if Scenario.Dir is that directory. A program
// that uses definitions or snapshots imports package fake/crd.
//
// The set-up of the world, with all components running and nodes registered, is not part of the
// schedule: step 1 is the first step after it. A world without users, but with drawn components, has
// no set-up: their start is part of the schedule.
//
// # What it does not do
//
// Package explore searches for the schedule.
package scenario
