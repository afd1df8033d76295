// Package scheddiff compares the decisions of our scheduler with those of upstream's, k8s.io/kubernetes
// 1.36.3.
//
// A test draws nodes, classes, volumes, claims and pods, and creates the pods one after the other in a
// world with our scheduler, on a stepped host. A stand-in binds the claims that the scheduler prepared. Each time, upstream's
// scheduler decides about the same pod, by the same objects: its framework runs PreFilter, Filter, PostFilter
// and Score once. Ours must choose one of the nodes that upstream rates best, or give the same message, to the
// letter, and make room on the same node by the same victims.
//
// What it does not do: upstream does not write anything, so the order of requests is not compared; nor are
// queue and back-off.
package scheddiff
