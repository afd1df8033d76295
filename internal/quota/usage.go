package quota

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// classSuffix is the part of the name of a claim's resource that follows its class.
const classSuffix = ".storageclass.storage.k8s.io/"

// countPrefix begins the resources that count the objects of a kind.
const countPrefix = "count/"

// countOf returns the resource that counts the objects of a resource.
func countOf(of schema.GroupResource) corev1.ResourceName {
	return corev1.ResourceName(countPrefix + of.String())
}

var (
	claimResources   = []corev1.ResourceName{corev1.ResourcePersistentVolumeClaims, corev1.ResourceRequestsStorage}
	serviceResources = []corev1.ResourceName{
		"count/services", corev1.ResourceServices, corev1.ResourceServicesNodePorts,
		corev1.ResourceServicesLoadBalancers,
	}
	// aliases are the other resources that count the objects of a kind.
	aliases = map[schema.GroupResource]corev1.ResourceName{
		{Resource: "configmaps"}:             corev1.ResourceConfigMaps,
		{Resource: "replicationcontrollers"}: corev1.ResourceReplicationControllers,
		{Resource: "resourcequotas"}:         corev1.ResourceQuotas,
		{Resource: "secrets"}:                corev1.ResourceSecrets,
	}
)

// Counted returns the resources whose objects a list counts by their group, or whose devices it limits,
// each once. Events are never counted.
//
// Upstream: pkg/quota/v1/install DefaultIgnoredResources.
func Counted(list corev1.ResourceList) []schema.GroupResource {
	var out []schema.GroupResource
	for _, name := range names(list) {
		of, ok := strings.CutPrefix(string(name), countPrefix)
		resource := schema.ParseGroupResource(of)
		if usesDevices(name) {
			resource, ok = DeviceClaims, true
		}
		if ok && !isIgnored(resource) && !slices.Contains(out, resource) {
			out = append(out, resource)
		}
	}
	return out
}

func isIgnored(of schema.GroupResource) bool {
	return of.Resource == "events" && (of.Group == "" || of.Group == "events.k8s.io")
}

// Resources returns which resources of a list objects of a kind may use, sorted.
//
// Upstream: pkg/quota/v1/evaluator/core MatchingResources.
func Resources(of schema.GroupResource, list corev1.ResourceList) []corev1.ResourceName {
	if isIgnored(of) {
		return nil
	}
	var out []corev1.ResourceName
	for _, name := range names(list) {
		if uses(of, name) {
			out = append(out, name)
		}
	}
	return out
}

func uses(of schema.GroupResource, name corev1.ResourceName) bool {
	if name == countOf(of) || aliases[of] == name && name != "" {
		return true
	}
	if of.Group != "" {
		return of == DeviceClaims && usesDevices(name)
	}
	switch of.Resource {
	case "persistentvolumeclaims":
		return slices.ContainsFunc(claimResources, func(r corev1.ResourceName) bool {
			return name == r || strings.HasSuffix(string(name), classSuffix+string(r))
		})
	case "pods":
		return podUses(name)
	case "services":
		return slices.Contains(serviceResources, name)
	}
	return false
}

// Usage returns what an object uses.
func Usage(of schema.GroupResource, obj metav1.Object, now time.Time) corev1.ResourceList {
	switch obj := obj.(type) {
	case *corev1.PersistentVolumeClaim:
		return claimUsage(obj)
	case *corev1.Pod:
		return podUsage(obj, now)
	case *corev1.Service:
		return serviceUsage(obj)
	case *resourcev1.ResourceClaim:
		return deviceUsage(obj)
	}
	used := corev1.ResourceList{countOf(of): one()}
	if alias := aliases[of]; alias != "" {
		used[alias] = one()
	}
	return used
}

// claimUsage returns what a claim uses. A failed expansion keeps what was allocated for it.
//
// Upstream: pkg/quota/v1/evaluator/core pvcEvaluator.Usage.
func claimUsage(claim *corev1.PersistentVolumeClaim) corev1.ResourceList {
	used := corev1.ResourceList{corev1.ResourcePersistentVolumeClaims: one()}
	if size, ok := claim.Spec.Resources.Requests[corev1.ResourceStorage]; ok {
		if allocated, ok := claim.Status.AllocatedResources[corev1.ResourceStorage]; ok && allocated.Cmp(size) > 0 {
			size = allocated
		}
		size = size.DeepCopy()
		size.RoundUp(0)
		used[corev1.ResourceRequestsStorage] = size
	}
	if class := className(claim); class != "" {
		for _, name := range claimResources {
			if amount, ok := used[name]; ok {
				used[corev1.ResourceName(class+classSuffix+string(name))] = amount
			}
		}
	}
	used["count/persistentvolumeclaims"] = one()
	return used
}

// className returns the storage class of a claim.
func className(claim *corev1.PersistentVolumeClaim) string {
	if class, ok := claim.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return class
	}
	if claim.Spec.StorageClassName != nil {
		return *claim.Spec.StorageClassName
	}
	return ""
}

// serviceUsage returns what a service uses.
//
// Upstream: pkg/quota/v1/evaluator/core serviceEvaluator.Usage.
func serviceUsage(service *corev1.Service) corev1.ResourceList {
	ports, balancers := 0, int64(0)
	switch service.Spec.Type {
	case corev1.ServiceTypeNodePort:
		ports = len(service.Spec.Ports)
	case corev1.ServiceTypeLoadBalancer:
		balancers = 1
		for _, port := range service.Spec.Ports {
			allocates := service.Spec.AllocateLoadBalancerNodePorts
			if allocates == nil || *allocates || port.NodePort != 0 {
				ports++
			}
		}
	}
	return corev1.ResourceList{
		"count/services": one(), corev1.ResourceServices: one(),
		corev1.ResourceServicesNodePorts:     *resource.NewQuantity(int64(ports), resource.DecimalSI),
		corev1.ResourceServicesLoadBalancers: *resource.NewQuantity(balancers, resource.DecimalSI),
	}
}
