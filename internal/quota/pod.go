package quota

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	resourcehelper "k8s.io/component-helpers/resource"
)

// podResources are the resources that pods use, besides huge pages and extended resources.
var podResources = []corev1.ResourceName{
	"count/pods", corev1.ResourcePods,
	corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage,
	corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsEphemeralStorage,
	corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage,
}

// required are the resources that each container must state if a quota limits them.
var required = []corev1.ResourceName{
	corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory,
	corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory,
}

const (
	requestsPrefix = corev1.DefaultResourceRequestsPrefix
	// devicePrefix begins the extended resources of device classes.
	devicePrefix = "deviceclass.resource.kubernetes.io/"
)

func podUses(name corev1.ResourceName) bool {
	if slices.Contains(podResources, name) || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
		return true
	}
	requested, ok := strings.CutPrefix(string(name), requestsPrefix)
	return ok && (strings.HasPrefix(requested, corev1.ResourceHugePagesPrefix) ||
		!isNative(string(name)) || strings.HasPrefix(requested, devicePrefix))
}

// isNative reports whether a resource belongs to Kubernetes.
func isNative(name string) bool {
	return !strings.Contains(name, "/") || strings.Contains(name, "kubernetes.io/")
}

// isExtended reports whether a resource of a container is an extended one.
//
// Upstream: pkg/apis/core/v1/helper IsExtendedResourceName; pkg/scheduler/util
// IsDRAExtendedResourceName.
func isExtended(name corev1.ResourceName) bool {
	if strings.HasPrefix(string(name), devicePrefix) {
		return true
	}
	return !isNative(string(name)) && !strings.HasPrefix(string(name), requestsPrefix) &&
		len(validation.IsQualifiedName(requestsPrefix+string(name))) == 0
}

// podUsage returns what a pod uses. One that has ended, or is overdue to disappear, only counts.
//
// Upstream: pkg/quota/v1/evaluator/core PodUsageFunc.
func podUsage(pod *corev1.Pod, now time.Time) corev1.ResourceList {
	used := corev1.ResourceList{}
	if UsesCompute(pod, now) {
		opts := resourcehelper.PodResourcesOptions{UseStatusResources: true}
		used = computeUsage(resourcehelper.PodRequests(pod, opts), resourcehelper.PodLimits(pod, opts))
	}
	used["count/pods"] = one()
	return used
}

// UsesCompute reports whether a pod uses more than its object: it has not ended, and its grace
// period has not been over for as long again.
//
// Upstream: pkg/quota/v1/evaluator/core QuotaV1Pod.
func UsesCompute(pod *corev1.Pod, now time.Time) bool {
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return false
	}
	if pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil {
		return true
	}
	grace := time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
	return !now.After(pod.DeletionTimestamp.Add(grace))
}

// computeUsage returns what a pod or a container with the given resources uses.
//
// Upstream: pkg/quota/v1/evaluator/core podComputeUsageHelper.
func computeUsage(requests, limits corev1.ResourceList) corev1.ResourceList {
	used := corev1.ResourceList{corev1.ResourcePods: one()}
	for name, amount := range requests {
		switch {
		case name == corev1.ResourceCPU, name == corev1.ResourceMemory, name == corev1.ResourceEphemeralStorage,
			strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
			used[name], used[requestsPrefix+name] = amount, amount
		case isExtended(name):
			used[requestsPrefix+name] = amount
		}
	}
	for name, amount := range limits {
		switch name {
		case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
			used["limits."+name] = amount
		}
	}
	return used
}

// missing returns an error if a container does not state a resource that it must state.
//
// Upstream: pkg/quota/v1/evaluator/core podEvaluator.Constraints.
func missing(pod *corev1.Pod, limited []corev1.ResourceName) error {
	if resourcehelper.IsPodLevelResourcesSet(pod) {
		return nil
	}
	lacking := map[string][]string{} // names of containers, by resource
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			used := computeUsage(containers[i].Resources.Requests, containers[i].Resources.Limits)
			for _, name := range required {
				if _, ok := used[name]; !ok && slices.Contains(limited, name) {
					lacking[string(name)] = append(lacking[string(name)], containers[i].Name)
				}
			}
		}
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(lacking)) {
		slices.Sort(lacking[name])
		parts = append(parts, name+" for: "+strings.Join(slices.Compact(lacking[name]), ","))
	}
	if len(parts) == 0 {
		return nil
	}
	return errors.New("must specify " + strings.Join(parts, "; "))
}
