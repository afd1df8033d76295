package snapshotapi

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A VolumeGroupSnapshot is a user's request for snapshots of the volumes of several claims at one
// moment, or for existing ones.
type VolumeGroupSnapshot struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   GroupSnapshotSpec    `json:"spec"`
	Status *GroupSnapshotStatus `json:"status,omitempty"`
}

// A GroupSnapshotSpec has one source.
type GroupSnapshotSpec struct {
	Source                       GroupSnapshotSource `json:"source"`
	VolumeGroupSnapshotClassName *string             `json:"volumeGroupSnapshotClassName,omitempty"`
}

// A GroupSnapshotSource selects claims of the same namespace, or is an existing content.
type GroupSnapshotSource struct {
	Selector                       *metav1.LabelSelector `json:"selector,omitempty"`
	VolumeGroupSnapshotContentName *string               `json:"volumeGroupSnapshotContentName,omitempty"`
}

// A GroupSnapshotStatus is what is known of a group of snapshots.
type GroupSnapshotStatus struct {
	BoundVolumeGroupSnapshotContentName *string      `json:"boundVolumeGroupSnapshotContentName,omitempty"`
	CreationTime                        *metav1.Time `json:"creationTime,omitempty"`
	ReadyToUse                          *bool        `json:"readyToUse,omitempty"`
	Error                               *Error       `json:"error,omitempty"`
}

// A VolumeGroupSnapshotContent is a group of snapshots of a driver.
type VolumeGroupSnapshotContent struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   GroupContentSpec    `json:"spec"`
	Status *GroupContentStatus `json:"status,omitempty"`
}

// A GroupContentSpec binds a content to a group of snapshots and has one source.
type GroupContentSpec struct {
	VolumeGroupSnapshotRef       corev1.ObjectReference `json:"volumeGroupSnapshotRef"`
	DeletionPolicy               DeletionPolicy         `json:"deletionPolicy"`
	Driver                       string                 `json:"driver"`
	VolumeGroupSnapshotClassName *string                `json:"volumeGroupSnapshotClassName,omitempty"`
	Source                       GroupContentSource     `json:"source"`
}

// A GroupContentSource is volumes of which snapshots are taken, or existing snapshots of a driver.
type GroupContentSource struct {
	VolumeHandles        []string              `json:"volumeHandles,omitempty"`
	GroupSnapshotHandles *GroupSnapshotHandles `json:"groupSnapshotHandles,omitempty"`
}

// GroupSnapshotHandles are an existing group of snapshots of a driver, and its members.
type GroupSnapshotHandles struct {
	VolumeGroupSnapshotHandle string   `json:"volumeGroupSnapshotHandle"`
	VolumeSnapshotHandles     []string `json:"volumeSnapshotHandles"`
}

// A GroupContentStatus is what the driver has reported.
type GroupContentStatus struct {
	VolumeGroupSnapshotHandle *string        `json:"volumeGroupSnapshotHandle,omitempty"`
	CreationTime              *metav1.Time   `json:"creationTime,omitempty"`
	ReadyToUse                *bool          `json:"readyToUse,omitempty"`
	Error                     *Error         `json:"error,omitempty"`
	VolumeSnapshotInfoList    []SnapshotInfo `json:"volumeSnapshotInfoList,omitempty"`
}

// A SnapshotInfo is a member of a group. CreationTime is in nanoseconds since 1970, RestoreSize in
// bytes.
type SnapshotInfo struct {
	VolumeHandle   string `json:"volumeHandle,omitempty"`
	SnapshotHandle string `json:"snapshotHandle,omitempty"`
	CreationTime   *int64 `json:"creationTime,omitempty"`
	ReadyToUse     *bool  `json:"readyToUse,omitempty"`
	RestoreSize    *int64 `json:"restoreSize,omitempty"`
}

// A VolumeGroupSnapshotClass says how a driver takes snapshots of several volumes.
type VolumeGroupSnapshotClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Driver         string            `json:"driver"`
	Parameters     map[string]string `json:"parameters,omitempty"`
	DeletionPolicy DeletionPolicy    `json:"deletionPolicy"`
}
