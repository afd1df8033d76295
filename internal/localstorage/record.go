package localstorage

import (
	_ "embed" // of definition
	"errors"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// Provisioner is the provisioner of the storage classes of this package.
const Provisioner = "localstorage.volsim.dev"

// Definition is the CustomResourceDefinition of NodeLocalStorage, as YAML.
//
//go:embed definition.yaml
var Definition string

const (
	group   = Provisioner
	version = "v1alpha1"
	kind    = "NodeLocalStorage"
)

// resourceName is the resource of records in a fake.Commit.
const resourceName = "nodelocalstorages." + group

// records is the resource of records.
var records = schema.GroupVersionResource{Group: group, Version: version, Resource: "nodelocalstorages"}

// A NodeLocalStorage is the record of a storage class on a node: its volume group. It is written by
// the manager of the node.
type NodeLocalStorage struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   Spec   `json:"spec"`
	Status Status `json:"status,omitzero"`
}

// A Spec says which disks of a node a class has.
type Spec struct {
	StorageClassName string   `json:"storageClassName"`
	NodeName         string   `json:"nodeName"`
	Disks            []string `json:"disks"` // as the class names them
}

// A Status is what the manager of the node has made of the disks.
type Status struct {
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Phase is Ready, Degraded (a disk is lost, and no volume is created) or Failed (there is no
	// volume group).
	Phase       string `json:"phase,omitempty"`
	VolumeGroup string `json:"volumeGroup,omitempty"`
	// Capacity and Free are of the group. MaximumVolumeSize is the size of the largest volume that
	// can be created. They are written also if they are 0, so that kubectl prints it.
	Capacity          resource.Quantity  `json:"capacity"`
	Free              resource.Quantity  `json:"free"`
	MaximumVolumeSize resource.Quantity  `json:"maximumVolumeSize"`
	Conditions        []metav1.Condition `json:"conditions,omitempty"`
	Disks             []DiskStatus       `json:"disks,omitempty"`
	Volumes           []VolumeStatus     `json:"volumes,omitempty"` // by name
}

// A DiskStatus is a disk that the class names, or that the group has.
type DiskStatus struct {
	Path    string            `json:"path"`
	Size    resource.Quantity `json:"size,omitzero"`
	State   string            `json:"state"` // InUse, Missing, Refused or Lost
	Message string            `json:"message,omitempty"`
}

// A VolumeStatus is a logical volume.
type VolumeStatus struct {
	Name string            `json:"name"` // also of its PersistentVolume
	Size resource.Quantity `json:"size"`
	Lost bool              `json:"lost,omitempty"` // a disk of it is lost
}

// The phases of a record.
const (
	phaseReady    = "Ready"
	phaseDegraded = "Degraded"
	phaseFailed   = "Failed"
)

// recordName returns the name of the record of a class on a node.
func recordName(class, node string) string { return class + "." + node }

// volumeName returns the name of a claim's volume.
func (r *NodeLocalStorage) volume(name string) *VolumeStatus {
	for i := range r.Status.Volumes {
		if r.Status.Volumes[i].Name == name {
			return &r.Status.Volumes[i]
		}
	}
	return nil
}

// parseRecord returns the record of an object that an informer of any kind has: it is unstructured.
func parseRecord(obj any) (*NodeLocalStorage, error) {
	u, ok := obj.(runtime.Unstructured)
	if !ok {
		return nil, errors.New("the object of a record is not unstructured")
	}
	r := &NodeLocalStorage{}
	return r, runtime.DefaultUnstructuredConverter.FromUnstructured(u.UnstructuredContent(), r)
}

// unstructuredOf returns the object of a record.
func unstructuredOf(r *NodeLocalStorage) *unstructured.Unstructured {
	r.APIVersion, r.Kind = group+"/"+version, kind
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(r)
	if err != nil {
		panic("localstorage: write record: " + err.Error())
	}
	return &unstructured.Unstructured{Object: content}
}

// recordCache is the records as a process has seen them.
type recordCache struct{ lister cache.GenericLister }

func newRecordCache(from informers.SharedInformerFactory) (recordCache, cache.SharedIndexInformer, error) {
	informer, err := from.ForResource(records)
	if err != nil {
		return recordCache{}, nil, err
	}
	return recordCache{informer.Lister()}, informer.Informer(), nil
}

// get returns a record, or nil if it does not exist or cannot be parsed.
func (c recordCache) get(name string) *NodeLocalStorage {
	obj, err := c.lister.Get(name)
	if err != nil {
		return nil
	}
	r, err := parseRecord(obj)
	if err != nil {
		return nil
	}
	return r
}
