// Package deployment rolls out the templates of Deployments: it creates a ReplicaSet for each template,
// and scales it up and the earlier ones down.
//
//	deployment.New(deployment.Config{
//		Process: process, Client: client, Informers: informers, Recorder: recorder,
//	})
//
// The new set of a Deployment is the one with its template; all others are old. The name of a set has
// a hash of the template, so a set that was created before a crash is found again. Old sets without
// pods are the history: a rollback gives the Deployment the template of one of them.
//
// # The model
//
// One queue has the keys of Deployments, and one worker syncs a Deployment:
//
//  1. While a cache lacks a write of the controller, the sync fails and is retried.
//  2. Orphaned sets are adopted and strangers released.
//  3. revision.go: the new set is found and gets its revision and annotations, and the Deployment gets
//     its revision.
//  4. A Deployment that is paused, or whose number of replicas has changed, is scaled (scale.go): the
//     sets keep their proportions. Otherwise it is rolled out (rolling.go, recreate.go). These files have
//     pure functions that return the sizes of sets; do.go writes them, one request at a time.
//  5. status.go and progress.go: the status is written if it has changed. A timer wakes a rollout that
//     does not progress.
//
// # What it does not do
//
// No metrics. It touches no pods; see package replicaset.
//
// Upstream: pkg/controller/deployment, pkg/controller/deployment/util (v1.36).
package deployment
