package quota

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// DeviceClaims are the ResourceClaims, which use devices.
var DeviceClaims = schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceclaims"}

// usesDevices reports whether ResourceClaims may use a resource: the devices of a class.
//
// Differs: the extended resources of device classes are limited for pods only.
func usesDevices(name corev1.ResourceName) bool {
	return strings.HasSuffix(string(name), corev1.ResourceClaimsPerClass)
}

// deviceUsage returns what a ResourceClaim uses. It counts, for each request and class, the
// alternative with the most devices.
//
// Upstream: pkg/quota/v1/evaluator/core claimEvaluator.Usage (v1.36).
func deviceUsage(claim *resourcev1.ResourceClaim) corev1.ResourceList {
	devices := map[string]int64{} // by class
	for i := range claim.Spec.Devices.Requests {
		request := &claim.Spec.Devices.Requests[i]
		if exact := request.Exactly; exact != nil && len(request.FirstAvailable) == 0 {
			devices[exact.DeviceClassName] += deviceCount(exact.AllocationMode, exact.Count)
			continue
		}
		most := map[string]int64{}
		for j := range request.FirstAvailable {
			sub := &request.FirstAvailable[j]
			most[sub.DeviceClassName] = max(most[sub.DeviceClassName], deviceCount(sub.AllocationMode, sub.Count))
		}
		for class, n := range most {
			if n > 0 {
				devices[class] += n
			}
		}
	}
	used := corev1.ResourceList{countOf(DeviceClaims): one()}
	for class, n := range devices {
		amount := *resource.NewQuantity(n, resource.DecimalSI)
		used[corev1.ResourceName(class+corev1.ResourceClaimsPerClass)] = amount
		if n > 0 && class != "" {
			used[corev1.ResourceName(requestsPrefix+devicePrefix+class)] = amount
		}
	}
	return used
}

// deviceCount returns the maximum of devices that a request gets.
func deviceCount(mode resourcev1.DeviceAllocationMode, count int64) int64 {
	switch mode {
	case resourcev1.DeviceAllocationModeExactCount:
		return count
	case resourcev1.DeviceAllocationModeAll:
		return resourcev1.AllocationResultsMaxSize
	default:
		return 0
	}
}
