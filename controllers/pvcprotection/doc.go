// Package pvcprotection protects PersistentVolumeClaims that pods use from deletion.
//
//	pvcprotection.New(pvcprotection.Config{
//		Process: process, Client: server.Client(process), Informers: server.Informers(process),
//	})
//	host.Run() // or host.Start, on a live host
//
// The controller adds the finalizer kubernetes.io/pvc-protection to claims without it. It removes
// the finalizer from a claim that is being deleted once no pod uses the claim.
//
// A pod uses its claims from when it is scheduled until it is deleted. A completed pod uses them
// too, since the kubelet may still have its volumes mounted. Before the controller removes the
// finalizer, it checks the cached pods, and then those of the server, since the cache may lag. The
// claim of an ephemeral volume is used only by the pod that owns it. Once that pod is shut down it
// no longer uses the claim; otherwise each would wait for the other.
//
// # What it does not do
//
// It does not set the condition Unused. Its feature gate PersistentVolumeClaimUnusedSinceTime is
// off by default upstream.
//
// Upstream: pkg/controller/volume/pvcprotection (v1.36.3).
package pvcprotection
