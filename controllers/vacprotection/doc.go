// Package vacprotection protects VolumeAttributesClasses that are in use from deletion.
//
//	vacprotection.New(vacprotection.Config{
//		Process: process, Client: server.Client(process), Informers: server.Informers(process),
//	})
//	host.Run() // or host.Start, on a live host
//
// The controller adds the finalizer kubernetes.io/vac-protection to classes without it. It removes
// the finalizer from a class that is being deleted once no volume and no claim refers to it. A claim
// refers to the class that it requests, to the one that its volume has, and to the one that its
// volume is being changed to.
//
// # What it does not do
//
// It decides from its caches alone. A claim that refers to the class and that the cache has not seen
// yet does not keep it: the class of such a claim may disappear. Upstream's controller has the same
// race.
//
// Upstream: pkg/controller/volume/vacprotection (v1.36.3).
package vacprotection
