// Package replicaset keeps the number of pods of ReplicaSets.
//
//	replicaset.New(replicaset.Config{
//		Process: process, Client: client, Informers: informers, Recorder: recorder,
//	})
//
// A pod has a generated name (web-x7k2p) and no place of its own: any pod that the set selects and
// controls is a replica, unless it has ended or is being deleted. A Deployment has a ReplicaSet for
// each of its templates.
//
// With Config.ReplicationControllers it is the controller of ReplicationControllers. They are converted:
// a ReplicationController is a set whose selector is a map, and whose status does not count the pods that
// are being deleted.
//
// # The model
//
// One queue has the keys of sets, and one worker syncs a set:
//
//  1. While a cache lacks a write of the controller, the sync fails and is retried.
//  2. Orphans are adopted and strangers released. A live read of the set precedes the first adoption.
//  3. expect.go: if the cache of pods lacks a creation or a deletion, no pod is created or deleted.
//  4. manage.go: pods are created in batches of 1, 2, 4 and so on, until one cannot be created, or
//     the first pods in the order of rank.go are deleted.
//  5. status.go: the status is written if it has changed.
//
// store.go and replication.go read and write the sets of the two kinds.
//
// # What it does not do
//
// No metrics.
//
// Upstream: pkg/controller/replicaset, pkg/controller/replication (v1.36).
package replicaset
