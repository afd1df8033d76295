package facts

import "k8s.io/apimachinery/pkg/runtime/schema"

// resource is a resource of the API.
type resource struct {
	schema.GroupVersionResource
	kind       string
	namespaced bool
}

// The groups of the custom resources that Install installs.
const (
	customGroup = "facts.example.com"
	otherGroup  = "other.example.com"
)

func namespaced(group, version, name, kind string) resource {
	return resource{schema.GroupVersionResource{Group: group, Version: version, Resource: name}, kind, true}
}

func clusterScoped(group, version, name, kind string) resource {
	r := namespaced(group, version, name, kind)
	r.namespaced = false
	return r
}

// resources are the resources by their names in the facts.
var resources = map[string]resource{
	"namespaces":        clusterScoped("", "v1", "namespaces", "Namespace"),
	"nodes":             clusterScoped("", "v1", "nodes", "Node"),
	"pods":              namespaced("", "v1", "pods", "Pod"),
	"claims":            namespaced("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
	"volumes":           clusterScoped("", "v1", "persistentvolumes", "PersistentVolume"),
	"events":            namespaced("", "v1", "events", "Event"),
	"newevents":         namespaced("events.k8s.io", "v1", "events", "Event"),
	"configmaps":        namespaced("", "v1", "configmaps", "ConfigMap"),
	"secrets":           namespaced("", "v1", "secrets", "Secret"),
	"serviceaccounts":   namespaced("", "v1", "serviceaccounts", "ServiceAccount"),
	"services":          namespaced("", "v1", "services", "Service"),
	"quotas":            namespaced("", "v1", "resourcequotas", "ResourceQuota"),
	"classes":           clusterScoped("storage.k8s.io", "v1", "storageclasses", "StorageClass"),
	"attachments":       clusterScoped("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment"),
	"drivers":           clusterScoped("storage.k8s.io", "v1", "csidrivers", "CSIDriver"),
	"csinodes":          clusterScoped("storage.k8s.io", "v1", "csinodes", "CSINode"),
	"capacities":        namespaced("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity"),
	"attributesclasses": clusterScoped("storage.k8s.io", "v1", "volumeattributesclasses", "VolumeAttributesClass"),
	"statefulsets":      namespaced("apps", "v1", "statefulsets", "StatefulSet"),
	"deployments":       namespaced("apps", "v1", "deployments", "Deployment"),
	"replicasets":       namespaced("apps", "v1", "replicasets", "ReplicaSet"),
	"leases":            namespaced("coordination.k8s.io", "v1", "leases", "Lease"),
	"roles":             namespaced("rbac.authorization.k8s.io", "v1", "roles", "Role"),
	"clusterroles":      clusterScoped("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole"),
	"budgets":           namespaced("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"),
	"customresources": clusterScoped("apiextensions.k8s.io", "v1", "customresourcedefinitions",
		"CustomResourceDefinition"),
	"widgets": namespaced(customGroup, "v1", "widgets", "Widget"),
	"gadgets": clusterScoped(otherGroup, "v1", "gadgets", "Gadget"),
}
