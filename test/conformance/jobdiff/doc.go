// Package jobdiff compares our Job controller with upstream's, k8s.io/kubernetes 1.36.3. Its tests draw
// histories, execute each in two worlds, and compare the worlds.
//
// A [history] is a list of steps about one job. The job is created, changed, suspended and deleted; its
// pods succeed, fail with one of several codes, and are deleted; the controller restarts. In addition,
// one kind of request of the controller may fail for a while.
//
// Both worlds run on virtual clocks at the same rate, ours on a stepped host, upstream's in a bubble of
// testing/synctest. A kubelet acts every five seconds. After each step these must be equal: the pods
// without their names, the status of the job, and the set of events so far.
//
// What it does not do: it compares neither times nor the number of attempts, nor what upstream does
// while its caches are stale.
package jobdiff
