// Package resourcequota adds up what the objects of a namespace use of its ResourceQuotas.
//
//	resourcequota.New(resourcequota.Config{
//		Process: process, Client: server.Client(process), Informers: server.Informers(process),
//		Metadata: server.Client(process).Metadata(), Watcher: server.MetadataWatcher(process),
//		Discover: server.Client(process).ServerPreferredNamespacedResources,
//	})
//	host.Run() // or host.Start, on a live host
//
// The API server enforces a quota from its status: admission adds to status.used what a new or
// larger object uses. The controller does the rest. It copies spec.hard to status.hard, without which
// a quota is not enforced, and counts again after an object was deleted or uses less, and every five
// minutes. It counts claims, pods, services, secrets, config maps, replication controllers and quotas
// in its caches. Objects of other kinds, for resources such as count/deployments.apps, are listed.
//
// # What it does not do
//
// The caches of objects may lag behind the cache of quotas. A count then lacks an object that
// admission has charged, and the namespace may exceed its quota until the next count. Upstream's
// controller has the same race.
//
// Upstream: pkg/controller/resourcequota (v1.36.3).
package resourcequota
