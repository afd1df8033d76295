// Package daemondiff compares our controller of DaemonSets with upstream's, k8s.io/kubernetes 1.36.3. Its
// tests draw histories, execute each in two worlds, and compare the worlds.
//
// A [history] is a list of steps about one DaemonSet. It is created, changed, updated, rolled back and
// deleted, also with orphan; nodes are added, tainted and labelled; images break and are repaired; pods
// fail, become unready, are deleted and lose their labels; revisions lose their owner; the controller
// restarts. In addition, one kind of request of the controller may fail for a while.
//
// Both worlds run on virtual clocks at the same rate, ours on a stepped host, upstream's in a bubble of
// testing/synctest. A scheduler, a kubelet and a garbage collector act every five seconds. After each step
// these must be equal: the pods, the revisions with their names, numbers and owners, the status of the
// DaemonSet, and the set of events so far.
//
// What it does not do: it compares neither times nor the number of attempts. Upstream takes nodes in a
// random order. Therefore either all nodes change alike, and pods are compared without their node, or no
// pod stops a rollout. No node is deleted: see "Differs:" in the controller.
package daemondiff
