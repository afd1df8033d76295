package fake

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

const (
	// objectBytesMax is the limit of an object's encoding in etcd, with a few bytes around it.
	objectBytesMax = 3 << 19
	// messageBytesMax is the limit of a message to etcd.
	messageBytesMax = 2 << 20
	// envelopeBytes is the part of a message besides key and object, approximately.
	envelopeBytes = 80
	// customBytesMin is the approximate size from which a custom object is encoded to find out. A
	// string is at most six times as long in JSON.
	customBytesMin = objectBytesMax / 6
)

// storable returns the size of an object as sizeOf does, and an error if it is too large to be
// stored.
//
// Differs: the size is exact only up to some dozens of bytes. The real server tries again without
// managed fields.
//
// Upstream: etcd's --max-request-bytes; k8s.io/apiserver/pkg/endpoints/handlers isTooLargeError.
func storable(k *kind, obj Object) (int, error) {
	measured := sizeOf(obj)
	size := measured
	if c, ok := obj.(*CustomObject); ok {
		if size < customBytesMin {
			return measured, nil
		}
		data, err := json.Marshal(c)
		if err != nil {
			return 0, internalError(err.Error())
		}
		size = len(data)
	}
	size += envelopeBytes + len("/registry/") + len(k.resource) + len(obj.GetNamespace()) + len(obj.GetName())
	switch {
	case size > messageBytesMax:
		return 0, internalError(fmt.Sprintf("rpc error: code = ResourceExhausted desc = trying to send message larger than max "+
			"(%d vs. %d)", size, messageBytesMax))
	case size > objectBytesMax:
		return 0, internalError("etcdserver: request is too large")
	}
	return measured, nil
}

// sizeOf returns the approximate size of an object in bytes: that of its encoding.
func sizeOf(obj Object) int {
	switch o := obj.(type) {
	case *CustomObject:
		return o.ObjectMeta.Size() + sizeOfValue(o.Content)
	case *corev1.PersistentVolume:
		bare := *o
		bare.Spec.Capacity = nil
		return bare.Size() + sizeOfQuantities(o.Spec.Capacity)
	case *corev1.PersistentVolumeClaim:
		bare := *o
		bare.Spec.Resources, bare.Status.Capacity = corev1.VolumeResourceRequirements{}, nil
		return bare.Size() + sizeOfQuantities(o.Spec.Resources.Requests) + sizeOfQuantities(o.Spec.Resources.Limits) +
			sizeOfQuantities(o.Status.Capacity)
	case *corev1.Node:
		bare := *o
		bare.Status.Capacity, bare.Status.Allocatable = nil, nil
		return bare.Size() + sizeOfQuantities(o.Status.Capacity) + sizeOfQuantities(o.Status.Allocatable)
	case interface{ Size() int }:
		return o.Size()
	}
	return 0
}

// sizeOfQuantities returns the approximate size of quantities, without formatting them.
func sizeOfQuantities(all corev1.ResourceList) int {
	const quantity = 16
	n := 0
	for name := range all {
		n += len(name) + quantity
	}
	return n
}

func sizeOfValue(value any) int {
	const scalar = 8
	n := scalar
	switch v := value.(type) {
	case string:
		n += len(v)
	case []any:
		for _, elem := range v {
			n += sizeOfValue(elem)
		}
	case map[string]any:
		for name, elem := range v {
			n += len(name) + sizeOfValue(elem)
		}
	}
	return n
}
