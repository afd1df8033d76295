// Package events records Event objects for the processes of a control plane.
//
//	recorder := events.New(events.Config{
//		Process: process, Client: client, Source: "persistentvolume-controller",
//	})
//	recorder.Event(claim, corev1.EventTypeNormal, "FailedBinding", "no volumes")
//
// A [Recorder] is a record.EventRecorder. Recording does not block: it appends the event to a list,
// and a task of the process writes it through the API. A repeated event about the same object
// increments the count of the existing one, as upstream's correlator does.
//
// # What it does not do
//
//   - Upstream's spam filter: a bucket of 25 events for each source and object.
//   - Upstream's aggregation of events that differ in their message only.
//   - Retries: an event that cannot be written is dropped, as upstream does after its retries.
//
// Upstream: client-go tools/record.
package events
