// Package nodediff compares our controllers of nodes that fail with upstream's, k8s.io/kubernetes 1.36.3: taint
// eviction, pod garbage collector, and node lifecycle. Its tests draw histories, execute each in two worlds, and
// compare the worlds.
//
// A [history] is a list of steps about a few nodes and pods. Nodes are created, deleted and created again, tainted,
// cordoned and labelled; their kubelets become silent, return, and report conditions; pods are created, bound, deleted
// and end, with tolerations and finalizers; the controllers restart. In addition, one kind of request of the
// controllers may fail for a while.
//
// Both worlds run on virtual clocks at the same rate, ours on a stepped host, upstream's in a bubble of
// testing/synctest. The kubelets act every five seconds. After each step, which takes 100 s or 200 s, these must be
// equal: labels, taints and conditions of nodes, conditions and phases of pods, also of removed ones, and the events so
// far with their counts. Times are compared where upstream does not look at all objects periodically: when pods are
// evicted, and how long after another a node of its zone is tainted.
//
// What it does not do: upstream tries five times to evict a pod and then gives up, so no request fails more often in
// these histories. It looks at nodes every 5 s and at pods every 20 s, so nodes do not return while it may or may not
// have looked.
package nodediff
