package attachdetach

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/sim"
)

// A nodeStatus writes node.status.volumesAttached, from which a kubelet learns what it may mount. A
// node is written when its reported volumes change, and before a detach. Only one write of a node
// is in flight at a time, so that an older list cannot overtake a newer one.
//
// Differs: upstream sends the difference between its cached node and the new list. The difference
// is empty, and removes nothing, while the cache does not show the list written before. Here the
// whole list is sent. Upstream looks up the node in its cache, and starts the detach if it is not
// there; here the API server decides whether the node exists.
//
// Upstream: pkg/controller/volume/attachdetach/statusupdater (v1.36).
type nodeStatus struct {
	process *sim.Process
	client  kubernetes.Interface
	actual  *actualStateOfWorld
	queue   *sim.Queue[types.NodeName]
	written map[types.NodeName][]corev1.AttachedVolume // last list that this controller wrote
	writing map[types.NodeName]bool
}

func newNodeStatus(cfg Config, actual *actualStateOfWorld) *nodeStatus {
	s := &nodeStatus{
		process: cfg.Process, client: cfg.Client, actual: actual,
		queue:   sim.NewQueue[types.NodeName](cfg.Process, sim.QueueConfig{Name: "nodestatus"}),
		written: map[types.NodeName][]corev1.AttachedVolume{},
		writing: map[types.NodeName]bool{},
	}
	s.queue.Work(s.flush)
	return s
}

// changed queues a write of the node.
func (s *nodeStatus) changed(node types.NodeName) { s.queue.Add(node) }

// flush writes the node's list unless the API server has it already. It leaves the process. A
// missing node is not an error; it is written when it exists again.
//
// Upstream: pkg/controller/volume/attachdetach/statusupdater UpdateNodeStatusForNode (v1.36).
func (s *nodeStatus) flush(ctx context.Context, node types.NodeName) error {
	for s.writing[node] {
		s.process.Wait("the write of "+string(node)+" under way", 0, func() bool { return !s.writing[node] })
	}
	list := s.actual.reportedVolumes(node)
	if written, ok := s.written[node]; ok && slices.Equal(written, list) {
		return nil
	}
	s.writing[node] = true
	delete(s.written, node)
	_, err := s.client.CoreV1().Nodes().
		Patch(ctx, string(node), types.StrategicMergePatchType, statusPatch(list), metav1.PatchOptions{}, "status")
	delete(s.writing, node)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("patch volumes attached of node %s: %w", node, err)
	}
	s.written[node] = list
	return nil
}

// nodeChanged processes a node from the cache; old is nil for a new one. A recreated node, or one
// whose list another client changed, is written again.
//
// Upstream: pkg/controller/volume/attachdetach nodeAdd (v1.36), with SetNodeStatusUpdateNeeded.
func (s *nodeStatus) nodeChanged(old, node *corev1.Node) {
	name := types.NodeName(node.Name)
	list := s.actual.reportedVolumes(name)
	if slices.Equal(node.Status.VolumesAttached, list) {
		return
	}
	if old == nil || old.UID != node.UID || s.wasOverwritten(old, node) || s.isUnwritten(name) {
		delete(s.written, name)
		s.changed(name)
	}
}

// wasOverwritten reports whether the list that this controller wrote was replaced by another.
func (s *nodeStatus) wasOverwritten(old, node *corev1.Node) bool {
	written, ok := s.written[types.NodeName(node.Name)]
	return ok && slices.Equal(old.Status.VolumesAttached, written) &&
		!slices.Equal(node.Status.VolumesAttached, written)
}

// isUnwritten reports whether this controller has neither written the node's list nor is writing
// it. That is so after a start from a stale cache.
func (s *nodeStatus) isUnwritten(node types.NodeName) bool {
	_, ok := s.written[node]
	return !ok && !s.writing[node]
}

// nodeDeleted forgets the written list.
func (s *nodeStatus) nodeDeleted(node types.NodeName) { delete(s.written, node) }

// statusPatch returns a patch with the whole list. An empty list removes the field.
func statusPatch(list []corev1.AttachedVolume) []byte {
	var p struct {
		Status struct {
			VolumesAttached []corev1.AttachedVolume `json:"volumesAttached"`
		} `json:"status"`
	}
	p.Status.VolumesAttached = list
	patch, err := json.Marshal(&p)
	if err != nil {
		panic(fmt.Sprintf("attachdetach: volumes attached: %v", err))
	}
	return patch
}
