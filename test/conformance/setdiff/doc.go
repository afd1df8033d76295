// Package setdiff compares our StatefulSet controller with upstream's, k8s.io/kubernetes 1.36.3. Its
// tests draw histories, execute each in two worlds, and compare the worlds.
//
// A [history] is a list of steps about one set. The set is created, changed and deleted, also with
// orphan; its pods fail, become unready, are deleted, lose their labels and their owner, or do not end;
// its claims are deleted; the controller restarts. In addition, one kind of request of the controller
// may fail for a while.
//
// Both worlds run on virtual clocks at the same rate, ours on a stepped host, upstream's in a bubble of
// testing/synctest. A kubelet and a garbage collector act every five seconds. After each step these
// must be equal: pods, claims with their owners, revisions with their names and numbers, the status of
// the set, and the set of events so far. The number of times an object was created counts.
//
// What it does not do: it compares neither times nor the number of attempts, nor what upstream does
// while its caches are stale.
package setdiff
