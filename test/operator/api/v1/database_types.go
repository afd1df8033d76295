package v1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClaimPolicy says what happens to the claim of a replica that is removed.
//
// +kubebuilder:validation:Enum=Delete;Retain
type ClaimPolicy string

// The claim policies.
const (
	DeleteClaims ClaimPolicy = "Delete"
	RetainClaims ClaimPolicy = "Retain"
)

// ConditionReady is the type of the condition that all replicas run with the storage of the spec.
const ConditionReady = "Ready"

// DatabaseSpec is the desired state of a Database.
type DatabaseSpec struct {
	// Replicas is the number of replicas. Each has a claim and a pod.
	//
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// Storage is the size of the claim of each replica.
	//
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity(string(oldSelf))) >= 0",message="storage cannot shrink"
	Storage resource.Quantity `json:"storage"`

	// Image of the database.
	//
	// +kubebuilder:default="database:1"
	// +optional
	Image string `json:"image,omitempty"`

	// ClaimPolicy says what happens to the claims of replicas that are removed.
	//
	// +kubebuilder:default=Delete
	// +optional
	ClaimPolicy ClaimPolicy `json:"claimPolicy,omitempty"`
}

// DatabaseStatus is the observed state of a Database.
type DatabaseStatus struct {
	// ObservedGeneration is the generation that the status is about.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// ReadyReplicas is the number of replicas whose pod runs.
	//
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`

	// Storage is the size that all claims request.
	//
	// +optional
	Storage *resource.Quantity `json:"storage,omitempty"`

	// Claims has the name of the claim of each replica.
	//
	// +optional
	Claims map[string]string `json:"claims,omitempty"`

	// Conditions of the Database: Ready.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Database is a replicated database.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Storage",type=string,JSONPath=`.spec.storage`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
type Database struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   DatabaseSpec   `json:"spec"`
	Status DatabaseStatus `json:"status,omitempty"`
}

// DatabaseList is a list of Databases.
//
// +kubebuilder:object:root=true
type DatabaseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Database `json:"items"`
}
