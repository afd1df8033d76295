package executor

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Key identifies what an operation works on: a volume, one pod's use of it, or the volume on one
// node. An empty Pod means all pods, an empty Node all nodes. A key without a volume identifies
// nothing.
type Key struct {
	Volume corev1.UniqueVolumeName
	Pod    types.UID
	Node   types.NodeName
}

// Overlaps reports whether operations on the two keys must not run at the same time. They must not
// if the volumes are equal and neither the pods nor the nodes differ. A key without a volume
// overlaps nothing, not even itself.
//
// Upstream: pkg/volume/util/nestedpendingoperations isOperationExists (v1.36).
func (k Key) Overlaps(other Key) bool {
	return k.Volume != "" && k.Volume == other.Volume &&
		(k.Pod == other.Pod || k.Pod == "" || other.Pod == "") &&
		(k.Node == other.Node || k.Node == "" || other.Node == "")
}

// String returns the key in the form of upstream's messages.
func (k Key) String() string {
	return fmt.Sprintf("{volumeName:%s podName:%s nodeName:%s}", k.Volume, k.Pod, k.Node)
}
