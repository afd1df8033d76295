// Package snapshotapi has the kinds of volume snapshots: their definitions, Go types and names.
//
//	err := definitions.InstallText(ctx, server, snapshotapi.Definitions())
//	cache, informer, err := snapshotapi.Contents.Cache(informers)
//	content := cache.Get("", "snapcontent-1")
//
// The definitions are the CustomResourceDefinitions that external-snapshotter 8.7.0 releases. The types
// have the fields of snapshot.storage.k8s.io/v1 and groupsnapshot.storage.k8s.io/v1. Clients of users
// may have upstream's types instead: the API is the same.
//
// Upstream's module of types requires newer Kubernetes libraries than this module does.
//
// Upstream: external-snapshotter/client/v8 apis and config/crd (8.7.0).
package snapshotapi
