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

// nodeStatus writes node.status.volumesAttached, by which a kubelet learns what it may mount. A node is written when
// something to report changed, and before a detach; of one node, one write is under way at a time, so that an older list
// cannot overtake a newer one.
//
// Differs: upstream sends the difference between its cached copy of the node and the new list, which is empty, and takes
// nothing back, while the cache does not show the list it wrote before; here the whole list is sent. Upstream looks for
// the node in its cache and lets a detach begin when it is not there; here the API server says whether it is.
//
// Upstream: pkg/controller/volume/attachdetach/statusupdater (v1.36).
type nodeStatus struct {
	process *sim.Process
	client  kubernetes.Interface
	actual  *actualStateOfWorld
	queue   *sim.Queue[types.NodeName]
	written map[types.NodeName][]corev1.AttachedVolume // what the API server is known to have, from this controller
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

// changed has the node written soon.
func (s *nodeStatus) changed(node types.NodeName) { s.queue.Add(node) }

// flush writes the node's list, unless it stands there already. It leaves the component. A node that is not there is no
// error: it is written when it comes back.
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

// nodeChanged takes in what the cache shows of a node; old is nil for one that is new. A node that came back, or whose
// list somebody else changed, is written again.
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

// wasOverwritten tells whether the list that stands there by this controller's word was replaced by another.
func (s *nodeStatus) wasOverwritten(old, node *corev1.Node) bool {
	written, ok := s.written[types.NodeName(node.Name)]
	return ok && slices.Equal(old.Status.VolumesAttached, written) && !slices.Equal(node.Status.VolumesAttached, written)
}

// isUnwritten tells whether nothing is known to stand there by this controller's word, nor soon will: it started from what an
// old cache showed, and did not write since.
func (s *nodeStatus) isUnwritten(node types.NodeName) bool {
	_, ok := s.written[node]
	return !ok && !s.writing[node]
}

// nodeDeleted forgets what was written.
func (s *nodeStatus) nodeDeleted(node types.NodeName) { delete(s.written, node) }

// statusPatch is the whole list; an empty one takes the field away.
func statusPatch(list []corev1.AttachedVolume) []byte {
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"volumesAttached": list}})
	if err != nil {
		panic(fmt.Sprintf("attachdetach: volumes attached: %v", err))
	}
	return patch
}
