// Package pvprotection protects bound PersistentVolumes from deletion.
//
//	pvprotection.New(pvprotection.Config{
//		Process: process, Client: server.Client(process), Informers: server.Informers(process),
//	})
//	host.Run() // or host.Start, on a live host
//
// The controller adds the finalizer kubernetes.io/pv-protection to volumes without it. It removes
// the finalizer from a volume that is being deleted once the volume's phase is not Bound. It
// decides from its cache alone. That is safe: if the volume has changed, the write conflicts.
//
// # What it does not do
//
// It does not check whether pods use the volume. Package pvcprotection does so for claims.
//
// Upstream: pkg/controller/volume/pvprotection (v1.36.3).
package pvprotection
