package attachdetach_test

import (
	"context"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim"
)

// kubelet is a minimal kubelet: it reports a volume in use before it mounts it, mounts only volumes
// that its node's status lists as attached, and ends the report after unmounting.
type kubelet struct {
	w         *world
	node      string
	component *sim.Process
	client    kubernetes.Interface
	mounts    []string
	dirty     bool
	dead      bool // stopped
}

func newKubelet(w *world, node string) *kubelet {
	component := w.Host.Process("kubelet(" + node + ")")
	k := &kubelet{w: w, node: node, component: component, client: w.Server.Client(component)}
	component.Worker("sync", func() bool { return k.dirty && !k.dead }, k.sync)
	w.onCommit = append(w.onCommit, func() {
		k.dirty = true
		component.Wake()
	})
	return k
}

// revive restarts a stopped kubelet.
func (k *kubelet) revive() {
	k.dead, k.dirty = false, true
	k.component.Wake()
}

func (k *kubelet) mounted(volume string) bool { return k != nil && slices.Contains(k.mounts, volume) }

func (k *kubelet) sync(ctx context.Context) {
	k.dirty = false
	node, err := k.client.CoreV1().Nodes().Get(ctx, k.node, metav1.GetOptions{})
	if err != nil {
		return
	}
	wanted := k.w.wantedOn(k.node)
	k.unmount(wanted)
	use := slices.Clone(k.mounts)
	for _, volume := range wanted {
		if !slices.Contains(use, volume) {
			use = append(use, volume)
		}
	}
	slices.Sort(use)
	if !k.report(ctx, node, use) {
		return
	}
	if node, err = k.client.CoreV1().Nodes().Get(ctx, k.node, metav1.GetOptions{}); err != nil {
		return
	}
	for _, attached := range node.Status.VolumesAttached {
		_, volume, _ := plugins.SplitUniqueName(attached.Name)
		if slices.Contains(use, volume) && !k.mounted(volume) && slices.Contains(k.w.wantedOn(k.node), volume) {
			k.mount(volume)
		}
	}
}

func (k *kubelet) mount(volume string) {
	if !k.w.backend.attached[volume][types.NodeName(k.node)] {
		k.w.backend.blame("I17: %s is mounted on %s, where it is not attached", volume, k.node)
	}
	k.mounts = append(k.mounts, volume)
}

func (k *kubelet) unmount(wanted []string) {
	k.mounts = slices.DeleteFunc(k.mounts, func(volume string) bool { return !slices.Contains(wanted, volume) })
}

// report writes volumesInUse if it has changed.
func (k *kubelet) report(ctx context.Context, node *corev1.Node, use []string) bool {
	var names []corev1.UniqueVolumeName
	for _, volume := range use {
		names = append(names, plugins.UniqueVolumeName(diskName, volume))
	}
	if slices.Equal(names, node.Status.VolumesInUse) {
		return true
	}
	return patchStatus(ctx, k.client, k.node, map[string]any{"volumesInUse": names}) == nil
}

func patchStatus(ctx context.Context, client kubernetes.Interface, node string, status map[string]any) error {
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		panic(err)
	}
	_, err = client.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{}, "status")
	return err
}
