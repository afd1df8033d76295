// Package pvcprotection keeps PersistentVolumeClaims that pods use from vanishing: it takes the finalizer
// kubernetes.io/pvc-protection off a claim that is being deleted once no pod uses it, and puts it on claims that came
// without.
//
// A pod uses its claims from when it is scheduled until it is gone; that it has completed changes nothing, since the
// kubelet may still have its volumes mounted. Before the finalizer goes, the cached pods are asked and then, since the
// cache may be behind, the server. The claim of an ephemeral volume counts only for the pod that owns it, and not
// any more once that pod is shut down, or the two would wait for each other.
//
// Not here: the Unused condition of the gate PersistentVolumeClaimUnusedSinceTime, which is off in upstream.
//
// Upstream: pkg/controller/volume/pvcprotection (v1.36.3).
package pvcprotection
