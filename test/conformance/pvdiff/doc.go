// Package pvdiff compares our PersistentVolume controller with upstream's own, k8s.io/kubernetes 1.36.3: its tests draw
// histories, let both live through each on a server of their own, and compare the two servers after every step.
//
// A [history] is a list of steps: what users do to claims, volumes, classes and pods, what a provisioner or the scheduler
// would do, a restart of the controller; and beside it one request of the controller that goes wrong. After each step a
// world is left to itself until nothing changes any more. Then claims and volumes must be the same in both worlds, whole
// but for revisions and times, and so must the set of events that were ever told.
//
// Ties: where several volumes suit a claim equally well, or several claims wait for one volume, upstream decides by the
// order of a map, so that the same history may end in several ways. What ours does must be one of them: upstream lives
// through a history that ended otherwise again and again, until it once did the same. Where its maps do not yield that order,
// the difference must be an exchange between claims and volumes that suit one another. Differences that are there on purpose
// are listed by deliberates; a history ends where it meets one, and only one history in twenty may.
//
// The histories are the same each time. "go test -rapid.seed=0 -rapid.checks=1000" draws others, and more.
package pvdiff
