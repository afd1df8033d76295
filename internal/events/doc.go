// Package events writes what users see of a component: Event objects.
//
// A [Recorder] is a component's event recorder. Recording never waits: an event is put into a list, and a strand of the
// component writes it through the API when its turn comes. The same event about the same object again raises the count
// of the one that is there, as upstream's correlator does.
//
// Not here: upstream's spam filter (a bucket of 25 events per source and object) and its aggregation of events that
// differ in their message only. An event that cannot be written is dropped, as upstream does after its retries.
//
// Upstream: client-go tools/record.
package events
