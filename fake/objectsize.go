package fake

import (
	"encoding/json"
	"fmt"
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
