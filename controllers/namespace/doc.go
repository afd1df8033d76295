// Package namespace deletes the content of namespaces that are being deleted, and then finalizes
// them.
//
//	namespace.New(namespace.Config{
//		Process: process, Client: client, Metadata: client.Metadata(),
//		Informers: server.Informers(process), Watcher: server.MetadataWatcher(process),
//		Discover: client.ServerPreferredNamespacedResources,
//	})
//
// Pods are deleted first. When they are gone, the other resources follow in discovery order, each
// by one deletion of its collection. The namespace's conditions report what remains, by resource
// and by finalizer. Then the controller waits. A change of the remaining content triggers another
// attempt, at first for the resources of that content only. When no object of any resource remains,
// including custom ones, the controller removes the finalizer kubernetes, which deletes the
// namespace.
//
// # What it does not do
//
// It does not retry by time, as upstream does, except for pods' grace periods.
//
// Upstream: pkg/controller/namespace (v1.36.3).
package namespace
