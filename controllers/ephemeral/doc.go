// Package ephemeral creates the claims of generic ephemeral volumes: those that live as long as their
// pod.
//
//	ephemeral.New(ephemeral.Config{
//		Process: process, Client: server.Client(process), Informers: server.Informers(process),
//		Recorder: recorder,
//	})
//	host.Run() // or host.Start, on a live host
//
// The claim of volume scratch of pod web is named web-scratch. The pod is its controller, so the
// garbage collector deletes the claim after the pod. A deleted claim is created again
// while the pod exists. A claim of that name that belongs to something else stops the pod, with an
// event.
//
// # What it does not do
//
// It does not delete claims; see package garbagecollector.
//
// Upstream: pkg/controller/volume/ephemeral (v1.36.3).
package ephemeral
