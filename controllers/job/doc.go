// Package job runs the pods of Jobs until enough of them have succeeded, or too many have failed.
//
//	job.New(job.Config{
//		Process: process, Client: client, Informers: informers, Recorder: recorder,
//	})
//
// A pod has a generated name (pi-x7k2p) and the finalizer batch.kubernetes.io/job-tracking. A pod that
// has ended is counted once: its UID is written to the status (uncountedTerminatedPods), then its
// finalizer is removed, and then the status is written with the count and without the UID. A pod of an
// indexed job has an index besides, and the indexes that have succeeded are counted instead of pods.
//
// # The model
//
// One queue has the keys of jobs, and one worker syncs a job:
//
//  1. While a cache lacks a write of the controller, the sync fails and is retried. uncounted.go: the first
//     sync of a process reads the job and its pods, unless the job is new, and waits for them as well.
//  2. members.go: orphans are adopted and strangers released. A live read of the job precedes the first
//     adoption.
//  3. state.go: state.observe counts pods. end.go: state.end decides whether the job ends. Both are pure.
//     backoff.go, indexes.go, failurepolicy.go and successpolicy.go are parts of them.
//  4. manage.go: the pods of a job that ends are deleted. Other jobs get pods, in batches of 1, 2, 4 and
//     so on, or lose some.
//  5. track.go: the two writes of the status, with the removal of finalizers between them.
//
// A second queue removes finalizers of pods whose job has gone or finished (orphan.go).
//
// Between two syncs there are kept: the versions of the controller's own writes, deletions and removed
// finalizers that the cache of pods lacks, the pods that the process has created or read, and the failures
// for the back-off of each job. A crash loses the last, as upstream: the next failure has the first delay
// again.
//
// # What it does not do
//
// No metrics. The feature gate WorkloadWithJob is off by default, as upstream.
//
// Upstream: pkg/controller/job (v1.36).
package job
