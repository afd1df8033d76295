package rules

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// This file has the rules of the kinds of resource.k8s.io that a scheduler watches.
//
// Upstream: pkg/apis/resource/validation; pkg/registry/resource, the strategies.
// Differs: only the required top-level fields are validated.

func prepareDeviceClassCreate(_ metav1.Time, c, _ *resourcev1.DeviceClass) { c.Generation = 1 }

func prepareDeviceClassUpdate(_ metav1.Time, c, old *resourcev1.DeviceClass) {
	if !equality.Semantic.DeepEqual(c.Spec, old.Spec) {
		c.Generation = old.Generation + 1
	}
}

func validateDeviceClass(c, _ *resourcev1.DeviceClass) field.ErrorList {
	var errs field.ErrorList
	for i, s := range c.Spec.Selectors {
		if s.CEL == nil {
			errs = append(errs, field.Required(specPath.Child("selectors").Index(i).Child("cel"), ""))
		}
	}
	return errs
}

func validateDeviceClassUpdate(c, _ *resourcev1.DeviceClass) field.ErrorList {
	return validateDeviceClass(c, nil)
}

func defaultResourceClaim(c *resourcev1.ResourceClaim) {
	for i := range c.Spec.Devices.Requests {
		request := &c.Spec.Devices.Requests[i]
		if r := request.Exactly; r != nil {
			defaultDeviceCount(&r.AllocationMode, &r.Count)
		}
		for j := range request.FirstAvailable {
			sub := &request.FirstAvailable[j]
			defaultDeviceCount(&sub.AllocationMode, &sub.Count)
		}
	}
}

// Upstream: pkg/apis/resource/v1 SetDefaults_ExactDeviceRequest, SetDefaults_DeviceSubRequest.
func defaultDeviceCount(mode *resourcev1.DeviceAllocationMode, count *int64) {
	setIfEmpty(mode, resourcev1.DeviceAllocationModeExactCount)
	if *mode == resourcev1.DeviceAllocationModeExactCount {
		setIfEmpty(count, 1)
	}
}

func prepareResourceClaimCreate(_ metav1.Time, c, _ *resourcev1.ResourceClaim) {
	c.Status = resourcev1.ResourceClaimStatus{}
}

func validateResourceClaim(c, _ *resourcev1.ResourceClaim) field.ErrorList {
	var errs field.ErrorList
	for i, r := range c.Spec.Devices.Requests {
		if (r.Exactly != nil) == (len(r.FirstAvailable) > 0) {
			errs = append(errs, field.Required(specPath.Child("devices", "requests").Index(i),
				"exactly one of `exactly` or `firstAvailable` is required"))
		}
	}
	return errs
}

func validateResourceClaimUpdate(c, old *resourcev1.ResourceClaim) field.ErrorList {
	return immutable(c.Spec, old.Spec, specPath)
}

func prepareSliceCreate(_ metav1.Time, s, _ *resourcev1.ResourceSlice) { s.Generation = 1 }

func prepareSliceUpdate(_ metav1.Time, s, old *resourcev1.ResourceSlice) {
	if !equality.Semantic.DeepEqual(s.Spec, old.Spec) {
		s.Generation = old.Generation + 1
	}
}

func validateSlice(s, _ *resourcev1.ResourceSlice) field.ErrorList {
	spec := &s.Spec
	errs := validateDriverName(spec.Driver, specPath.Child("driver"))
	errs = append(errs, require(specPath.Child("pool"), named{"name", spec.Pool.Name})...)
	if n := spec.Pool.ResourceSliceCount; n <= 0 {
		errs = append(errs, field.Invalid(specPath.Child("pool", "resourceSliceCount"), n, positiveMsg))
	}
	if spec.NodeName == nil && spec.NodeSelector == nil && spec.AllNodes == nil && spec.PerDeviceNodeSelection == nil {
		errs = append(errs, field.Required(specPath,
			"exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"))
	}
	return errs
}

func validateSliceUpdate(s, _ *resourcev1.ResourceSlice) field.ErrorList {
	return validateSlice(s, nil)
}
