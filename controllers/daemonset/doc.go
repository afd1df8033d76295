// Package daemonset runs one pod of each DaemonSet on each node that should have one.
//
//	daemonset.New(daemonset.Config{
//		Process: process, Client: client, Informers: informers, Recorder: recorder,
//	})
//
// A pod is created for a node: its node affinity matches the name of that node, and the scheduler
// binds it. Nodes are chosen by the template's node name, node selector, node affinity and
// tolerations, to which the controller adds those of a node that is not ready, unreachable,
// unschedulable or under pressure.
//
// # The model
//
// One queue has the keys of sets, and one worker syncs a set:
//
//  1. While a cache lacks a write of the controller, the sync fails and is retried.
//  2. history.go: the ControllerRevision of the template is created, or gets the next number. Its hash
//     is a label of the pods of that template.
//  3. manage.go: state.manage is a pure function. It returns the nodes that need a pod and the pods to
//     delete. The controller creates and deletes them, one request at a time.
//  4. rolling.go: if the cache has all of that, state.roll returns which outdated pods are replaced
//     next. With a surge a new pod is created first, otherwise the old one is deleted first.
//  5. Revisions beyond the limit are deleted.
//  6. status.go: the status is written if it has changed.
//
// While the cache of pods lacks a creation or deletion, only steps 2 and 6 are taken. Between two syncs
// only the versions of the controller's own writes are kept, and the back-off of failed pods.
//
// # What it does not do
//
// No metrics. The deletion of a node causes no sync, as upstream; that of its pod does.
//
// Upstream: pkg/controller/daemon, pkg/controller/daemon/util (v1.36).
package daemonset
