// Package statefulset creates, updates and deletes the pods of StatefulSets, and creates their
// claims.
//
//	statefulset.New(statefulset.Config{
//		Process: process, Client: client, Informers: informers, Recorder: recorder,
//	})
//
// A pod has an ordinal, which is part of its name (web-0). It has one claim for each claim template
// of the set (data-web-0). A pod that is created again finds the claims of its ordinal. With the
// default policy the controller never adds an owner to a claim, so a claim outlives pod and set;
// with another persistentVolumeClaimRetentionPolicy the claim is owned by the set or by a pod that
// is being removed, and the garbage collector deletes it.
//
// # The model
//
// One queue has the keys of sets, and one worker syncs a set:
//
//  1. While a cache lacks a write of the controller, the sync fails and is retried.
//  2. members.go: orphans are adopted and strangers released. A live read of the set precedes the
//     first adoption.
//  3. revision.go: history.choose finds the ControllerRevision of the template; it is created,
//     or renumbered, if it must be.
//  4. decide.go: state.decide is a pure function. It returns a plan: works in batches, and the
//     status. pod.go makes the pods of a plan, claim.go claims and their owners, status.go the status.
//  5. do.go: the controller does one work after the other, one request at a time. It finishes the
//     batch in which a work fails, and starts no other. A batch of an ordered set is one work.
//  6. The status is written if it has changed, and old revisions are deleted.
//
// Nothing is kept between two syncs but the versions of the controller's own writes. A crash at any
// request is therefore followed by a sync that decides from the caches again.
//
// # What it does not do
//
// No metrics. The feature gate MaxUnavailableStatefulSet is off by default, as upstream; see
// [Config].
//
// Upstream: pkg/controller/statefulset, pkg/controller/history (v1.36).
package statefulset
