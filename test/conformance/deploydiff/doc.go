// Package deploydiff compares our controllers of Deployments, ReplicaSets and ReplicationControllers
// with upstream's, k8s.io/kubernetes 1.36.3. Its tests draw histories, execute each in two worlds, and
// compare the worlds.
//
// A [history] is a list of steps about one Deployment. It is created, changed, scaled, paused and
// deleted, also with orphan; images break and are repaired; its pods fail, become unready, are deleted
// and lose their labels; its sets lose their owner; the controllers restart. In addition, one kind of
// request of the controllers may fail for a while. The histories of replication_test.go are about one
// ReplicationController. It is created, changed, scaled and deleted; its selector changes; pods without an
// owner appear; the creation of pods is forbidden and allowed again.
//
// Both worlds run on virtual clocks at the same rate, ours on a stepped host, upstream's in a bubble of
// testing/synctest. A kubelet and a garbage collector act every five seconds. After each step these
// must be equal: the sets with their names, annotations, sizes, status and owners, the number of their
// pods in each state, the status and the conditions of the Deployment, and the set of events so far.
//
// What it does not do: it compares neither times, the number of attempts, nor the sizes of sets within
// a step. Pods have random names: those of a set in the same state are not told apart.
package deploydiff
