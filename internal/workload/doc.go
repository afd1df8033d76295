// Package workload is what controllers that create pods have in common: owners, adoption and release,
// the creation and deletion of pods, protection against stale caches, the readiness of pods, and
// the end of jobs.
//
//	claims := workload.Claims[*corev1.Pod]{Owner: set, Kind: kind, What: "Pod", Match: …, Fresh: …, Patch: …}
//	pods, err := claims.Claim(ctx, workload.Pods(index, set, true))
//
// An owner is an object with a selector, such as a StatefulSet. Its dependents are the objects that it
// controls. [Owners] finds the owners that a change of a dependent concerns, [Claims] adopts and
// releases dependents, [PodControl] creates and deletes pods, and [Written] has the versions of a
// controller's own writes.
//
// # What it does not do
//
// It has no queue. It decides nothing about the number of pods.
//
// Upstream: pkg/controller controller_ref_manager.go, controller_utils.go;
// pkg/controller/util/consistency (v1.36).
package workload
