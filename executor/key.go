package executor

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Key says what an operation works on: a volume, and of it what one pod has, or what is on one node. An empty Pod stands
// for all pods, an empty Node for all nodes. A key without a volume is of nothing in particular.
type Key struct {
	Volume corev1.UniqueVolumeName
	Pod    types.UID
	Node   types.NodeName
}

// Overlaps tells whether operations on the two keys must not run at the same time: they are of the same volume, and on
// neither the pods nor the nodes do they differ. A key without a volume overlaps nothing, not even itself.
//
// Upstream: pkg/volume/util/nestedpendingoperations isOperationExists (v1.36).
func (k Key) Overlaps(other Key) bool {
	return k.Volume != "" && k.Volume == other.Volume &&
		(k.Pod == other.Pod || k.Pod == "" || other.Pod == "") &&
		(k.Node == other.Node || k.Node == "" || other.Node == "")
}

// String gives the key as upstream's messages do.
func (k Key) String() string {
	return fmt.Sprintf("{volumeName:%s podName:%s nodeName:%s}", k.Volume, k.Pod, k.Node)
}
