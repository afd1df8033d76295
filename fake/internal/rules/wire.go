package rules

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Message is an API object, or a part of one, that has a protobuf wire form.
type Message interface {
	Size() int
	MarshalToSizedBuffer(buf []byte) (int, error)
}

// Same reports whether two messages have the same wire form. Semantically equal messages may differ
// in wire form.
func Same(a, b Message) bool {
	// Encoding a quantity formats it. These objects are therefore compared part by part, those without
	// quantities first, and without the quantities that both have.
	switch a := a.(type) {
	case *corev1.PersistentVolume:
		b := b.(*corev1.PersistentVolume)
		return a.Status.Phase == b.Status.Phase && Same(&a.ObjectMeta, &b.ObjectMeta) && Same(&a.Spec, &b.Spec) &&
			sameWire(&a.Status, &b.Status)
	case *corev1.PersistentVolumeClaim:
		b := b.(*corev1.PersistentVolumeClaim)
		return a.Status.Phase == b.Status.Phase && Same(&a.ObjectMeta, &b.ObjectMeta) && Same(&a.Spec, &b.Spec) &&
			Same(&a.Status, &b.Status)
	case *corev1.Node:
		b := b.(*corev1.Node)
		return Same(&a.ObjectMeta, &b.ObjectMeta) && sameWire(&a.Spec, &b.Spec) && Same(&a.Status, &b.Status)
	case *metav1.ObjectMeta:
		b := b.(*metav1.ObjectMeta)
		return slices.Equal(a.Finalizers, b.Finalizers) && sameWire(a, b)
	case *corev1.PersistentVolumeSpec:
		both := [...]corev1.PersistentVolumeSpec{*a, *b.(*corev1.PersistentVolumeSpec)}
		dropEqual(&both[0].Capacity, &both[1].Capacity)
		return sameWire(&both[0], &both[1])
	case *corev1.PersistentVolumeClaimSpec:
		both := [...]corev1.PersistentVolumeClaimSpec{*a, *b.(*corev1.PersistentVolumeClaimSpec)}
		dropEqual(&both[0].Resources.Requests, &both[1].Resources.Requests)
		return sameWire(&both[0], &both[1])
	case *corev1.PersistentVolumeClaimStatus:
		both := [...]corev1.PersistentVolumeClaimStatus{*a, *b.(*corev1.PersistentVolumeClaimStatus)}
		dropEqual(&both[0].Capacity, &both[1].Capacity)
		dropEqual(&both[0].AllocatedResources, &both[1].AllocatedResources)
		return sameWire(&both[0], &both[1])
	case *corev1.NodeStatus:
		both := [...]corev1.NodeStatus{*a, *b.(*corev1.NodeStatus)}
		dropEqual(&both[0].Capacity, &both[1].Capacity)
		dropEqual(&both[0].Allocatable, &both[1].Allocatable)
		return sameWire(&both[0], &both[1])
	}
	return sameWire(a, b)
}

// dropEqual removes a resource list that two messages share.
func dropEqual(a, b *corev1.ResourceList) {
	if maps.Equal(*a, *b) {
		*a, *b = nil, nil
	}
}

// sameWire encodes both messages.
func sameWire(a, b Message) bool {
	n := a.Size()
	if n != b.Size() {
		return false
	}
	buf := make([]byte, 2*n)
	_, errA := a.MarshalToSizedBuffer(buf[:n])
	_, errB := b.MarshalToSizedBuffer(buf[n:])
	return errA == nil && errB == nil && slices.Equal(buf[:n], buf[n:])
}

// Truncate drops the fraction of a second of each time: the wire carries whole seconds. A nil time
// is skipped.
func Truncate(times ...*metav1.Time) {
	for _, t := range times {
		if t != nil && t.Nanosecond() != 0 {
			t.Time = time.Unix(t.Unix(), 0).UTC()
		}
	}
}
