package facts

import "k8s.io/apimachinery/pkg/runtime/schema"

// resource is a resource, as the facts name it.
type resource struct {
	schema.GroupVersionResource
	kind       string
	namespaced bool
}

// The groups of the custom resources that the facts are about; see Install.
const (
	custom      = "facts.example.com"
	otherCustom = "other.example.com"
)

func in(group, version, name, kind string) resource {
	return resource{schema.GroupVersionResource{Group: group, Version: version, Resource: name}, kind, true}
}

func global(group, version, name, kind string) resource {
	r := in(group, version, name, kind)
	r.namespaced = false
	return r
}

// resources are the words of the facts.
var resources = map[string]resource{
	"namespaces":        global("", "v1", "namespaces", "Namespace"),
	"nodes":             global("", "v1", "nodes", "Node"),
	"pods":              in("", "v1", "pods", "Pod"),
	"claims":            in("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
	"volumes":           global("", "v1", "persistentvolumes", "PersistentVolume"),
	"events":            in("", "v1", "events", "Event"),
	"newevents":         in("events.k8s.io", "v1", "events", "Event"),
	"configmaps":        in("", "v1", "configmaps", "ConfigMap"),
	"secrets":           in("", "v1", "secrets", "Secret"),
	"serviceaccounts":   in("", "v1", "serviceaccounts", "ServiceAccount"),
	"services":          in("", "v1", "services", "Service"),
	"quotas":            in("", "v1", "resourcequotas", "ResourceQuota"),
	"classes":           global("storage.k8s.io", "v1", "storageclasses", "StorageClass"),
	"attachments":       global("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment"),
	"drivers":           global("storage.k8s.io", "v1", "csidrivers", "CSIDriver"),
	"csinodes":          global("storage.k8s.io", "v1", "csinodes", "CSINode"),
	"capacities":        in("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity"),
	"attributesclasses": global("storage.k8s.io", "v1", "volumeattributesclasses", "VolumeAttributesClass"),
	"statefulsets":      in("apps", "v1", "statefulsets", "StatefulSet"),
	"deployments":       in("apps", "v1", "deployments", "Deployment"),
	"replicasets":       in("apps", "v1", "replicasets", "ReplicaSet"),
	"leases":            in("coordination.k8s.io", "v1", "leases", "Lease"),
	"roles":             in("rbac.authorization.k8s.io", "v1", "roles", "Role"),
	"clusterroles":      global("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole"),
	"budgets":           in("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"),
	"customresources":   global("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition"),
	"widgets":           in(custom, "v1", "widgets", "Widget"),
	"gadgets":           global(otherCustom, "v1", "gadgets", "Gadget"),
}
