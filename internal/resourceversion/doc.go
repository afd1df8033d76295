// Package resourceversion compares the resource versions of objects of one resource:
//
//	order, err := resourceversion.Compare(cached.ResourceVersion, received.ResourceVersion)
//	if err == nil && order > 0 {
//		return // the cache has a later version
//	}
//
// Upstream: apimachinery pkg/util/resourceversion (v1.36), which older versions of apimachinery
// lack.
package resourceversion
