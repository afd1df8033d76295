// Package podclaims answers which claims a pod uses, and whether the pod has terminated.
//
//	keys := podclaims.Keys(pod) // such as "default/data"
//	if podclaims.Terminated(pod) { … }
//	podclaims.AddIndex(pods)
//	users := podclaims.Using(pods, "default/data")
//
// Several components need the claims of a pod's volumes, including those of ephemeral volumes.
// [AddIndex] adds the reverse index to a cache of pods.
//
// # What it does not do
//
// It does not decide whether a claim can be deleted, attached or mounted. That differs between
// components.
//
// Upstream: pkg/controller/volume/common, pkg/volume/util.
package podclaims
