package localstorage

import (
	_ "embed" // of definition

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volsim/volsim/internal/customresource"
)

// Provisioner is the provisioner of the storage classes of this package.
const Provisioner = "localstorage.volsim.dev"

// Definition is the CustomResourceDefinition of NodeLocalStorage, as YAML.
//
//go:embed definition.yaml
var Definition string

// records is the kind of records.
var records = customresource.Kind[NodeLocalStorage, *NodeLocalStorage]{
	Resource: schema.GroupVersionResource{Group: Provisioner, Version: "v1alpha1", Resource: "nodelocalstorages"},
	Name:     "NodeLocalStorage",
}

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
