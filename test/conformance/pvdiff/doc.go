// Package pvdiff compares our PersistentVolume controller with upstream's, k8s.io/kubernetes
// 1.36.3. Its tests draw histories, execute each on two servers, and compare the servers after
// every step.
//
// A [history] is a list of steps: what users do to claims, volumes, classes and pods, what a
// provisioner or the scheduler would do, and restarts of the controller. In addition, one request
// of the controller may fail. After each step a world runs until nothing changes any more. Then
// claims and volumes must be equal in both worlds, except for revisions and times, and so must the
// set of events so far.
//
// Ties: if several volumes suit a claim equally well, or several claims wait for one volume,
// upstream decides in map order, so that one history may have several results. The result of ours
// must be one of them: upstream executes a history with a different result again, until the results
// are equal once. If its maps do not yield that order, the difference must be an exchange between
// claims and volumes that suit one another. Deliberate differences are listed in deliberate. A
// history ends at the first one, and only one history in twenty may.
//
// The histories are the same in each run. "go test -rapid.seed=0 -rapid.checks=1000" draws others,
// and more.
package pvdiff
