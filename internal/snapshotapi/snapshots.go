package snapshotapi

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A DeletionPolicy says what happens to the snapshot of a driver when its content is deleted.
type DeletionPolicy string

// The deletion policies.
const (
	Delete DeletionPolicy = "Delete"
	Retain DeletionPolicy = "Retain"
)

// A VolumeSnapshot is a user's request for a snapshot of a claim's volume, or for an existing one.
type VolumeSnapshot struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   SnapshotSpec    `json:"spec"`
	Status *SnapshotStatus `json:"status,omitempty"`
}

// A SnapshotSpec has one source.
type SnapshotSpec struct {
	Source                  SnapshotSource `json:"source"`
	VolumeSnapshotClassName *string        `json:"volumeSnapshotClassName,omitempty"`
}

// A SnapshotSource is a claim of the same namespace, or an existing content.
type SnapshotSource struct {
	PersistentVolumeClaimName *string `json:"persistentVolumeClaimName,omitempty"`
	VolumeSnapshotContentName *string `json:"volumeSnapshotContentName,omitempty"`
}

// A SnapshotStatus is what is known of a snapshot.
type SnapshotStatus struct {
	BoundVolumeSnapshotContentName *string            `json:"boundVolumeSnapshotContentName,omitempty"`
	CreationTime                   *metav1.Time       `json:"creationTime,omitempty"`
	ReadyToUse                     *bool              `json:"readyToUse,omitempty"`
	RestoreSize                    *resource.Quantity `json:"restoreSize,omitempty"`
	Error                          *Error             `json:"error,omitempty"`
	VolumeGroupSnapshotName        *string            `json:"volumeGroupSnapshotName,omitempty"`
}

// An Error is the last error of a snapshot or a content.
type Error struct {
	Time    *metav1.Time `json:"time,omitempty"`
	Message *string      `json:"message,omitempty"`
}

// A VolumeSnapshotContent is a snapshot of a driver.
type VolumeSnapshotContent struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ContentSpec    `json:"spec"`
	Status *ContentStatus `json:"status,omitempty"`
}

// A ContentSpec binds a content to a snapshot and has one source.
type ContentSpec struct {
	VolumeSnapshotRef       corev1.ObjectReference       `json:"volumeSnapshotRef"`
	DeletionPolicy          DeletionPolicy               `json:"deletionPolicy"`
	Driver                  string                       `json:"driver"`
	VolumeSnapshotClassName *string                      `json:"volumeSnapshotClassName,omitempty"`
	Source                  ContentSource                `json:"source"`
	SourceVolumeMode        *corev1.PersistentVolumeMode `json:"sourceVolumeMode,omitempty"`
}

// A ContentSource is a volume of which a snapshot is taken, or an existing snapshot of a driver.
type ContentSource struct {
	VolumeHandle   *string `json:"volumeHandle,omitempty"`
	SnapshotHandle *string `json:"snapshotHandle,omitempty"`
}

// A ContentStatus is what the driver has reported. CreationTime is in nanoseconds since 1970,
// RestoreSize in bytes.
type ContentStatus struct {
	SnapshotHandle            *string `json:"snapshotHandle,omitempty"`
	CreationTime              *int64  `json:"creationTime,omitempty"`
	RestoreSize               *int64  `json:"restoreSize,omitempty"`
	ReadyToUse                *bool   `json:"readyToUse,omitempty"`
	Error                     *Error  `json:"error,omitempty"`
	VolumeGroupSnapshotHandle *string `json:"volumeGroupSnapshotHandle,omitempty"`
}

// A VolumeSnapshotClass says how a driver takes snapshots.
type VolumeSnapshotClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Driver         string            `json:"driver"`
	Parameters     map[string]string `json:"parameters,omitempty"`
	DeletionPolicy DeletionPolicy    `json:"deletionPolicy"`
}
