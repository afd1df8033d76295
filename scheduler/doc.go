// Package scheduler assigns pods to nodes, and selects the nodes for which delayed volumes are
// provisioned.
//
//	_, err := scheduler.New(scheduler.Config{
//		Process: process, Client: client, Informers: informers, Recorder: recorder,
//	})
//	host.Run() // or host.Start, on a live host
//
// A pod without a node waits in a queue (queue.go). A worker takes the one with the highest priority, of several
// the first, and runs a cycle (cycle.go): plugins filter the nodes and rank those that are left, and extenders
// may do both. With a node, the pod is assumed to be there from now on. What it needs there is reserved, and
// then written, one API request at a time (binding.go): volumes and claims first, the assignment last. While a
// worker waits for the API server, the next one decides about another pod; while a pod waits for its volumes,
// no worker does.
//
// A pod that fits nowhere may preempt others. Otherwise it waits until an event occurs that may help, according
// to the plugins that rejected it (watch.go). After an error it is tried again after 1 s, 2 s, up to 10 s.
//
// The plugins are packages in scheduler/internal, named as upstream's. Package framework there has what they
// share. Which plugins act, with which arguments, is the matter of profiles (profile.go, plugins.go), and of a
// KubeSchedulerConfiguration.
//
// # What it does not do
//
//   - Devices (ResourceClaims), pod groups, features that nodes declare.
//
// Upstream: kube-scheduler v1.36.
package scheduler
