// Package customresource reads and writes custom resources as Go types, over dynamic clients and
// informers.
//
//	var snapshots = customresource.Kind[VolumeSnapshot, *VolumeSnapshot]{Resource: …, Name: "VolumeSnapshot"}
//	cache, informer, err := snapshots.Cache(informers)
//	client := snapshots.Client(dynamicClient)
//	snapshot := cache.Get("default", "data")
//	snapshot.Spec.Source.PersistentVolumeClaimName = &claim
//	updated, err := client.Update(ctx, snapshot)
//
// A [Kind] converts between the unstructured objects of the API and a Go type with JSON tags. A
// [Client] makes one request a call. A [Cache] is the objects as a process has seen them. Both return
// objects of their own, which callers may modify. An object that the type cannot hold does not exist
// for a cache, and is an error for a client. Fields that the type lacks are lost by an update: a type
// that is updated has all fields of its definition.
//
// Upstream: k8s.io/client-go/dynamic; generated clientsets, for their shape.
package customresource
