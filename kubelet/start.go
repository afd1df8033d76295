package kubelet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
)

// errOldList says that a pod of the node was not seen yet, though the API server has it.
var errOldList = errors.New("the list of pods is old")

// begin is done first, when the pods of the node are known: all workers wait for the caches.
func (k *Kubelet) begin() {
	if k.begun {
		return
	}
	k.begun = true
	for _, uid := range slices.Sorted(maps.Keys(k.known)) {
		if pod := k.known[uid]; shouldRun(pod) {
			k.add(pod)
		}
	}
	for _, uid := range k.podDirs() {
		if k.known[uid] == nil {
			k.pods.Add(uid)
		}
	}
	if len(k.unseenPods()) > 0 || k.volumes.MarkAllPodsAdded() != nil {
		k.start.Add(k.cfg.Node)
	}
}

// unseenPods are the pods of which there are volumes on the disk, and which were not seen.
func (k *Kubelet) unseenPods() []types.UID {
	return slices.DeleteFunc(k.volumes.ReconstructedPods(), func(uid types.UID) bool { return k.known[uid] != nil })
}

// syncStart lets the volume manager take away what pods that are gone have left. The list with which a kubelet begins may be
// old: before the volumes of a pod are taken away that is not in it, the API server is asked, and the cache waited for.
//
// Differs: upstream believes a list that may be old, and ends the containers of a pod that is not in it.
func (k *Kubelet) syncStart(ctx context.Context, _ string) error {
	strangers := k.unseenPods()
	if len(strangers) > 0 {
		there, err := k.cfg.Client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector("spec.nodeName", k.cfg.Node).String(),
		})
		if err != nil {
			return err
		}
		for i := range there.Items {
			if uid := there.Items[i].UID; k.known[uid] == nil && slices.Contains(strangers, uid) {
				return fmt.Errorf("pod %s/%s: %w", there.Items[i].Namespace, there.Items[i].Name, errOldList)
			}
		}
	}
	for _, uid := range k.volumes.ReconstructedPods() { // some were seen since this kubelet began, or meanwhile, and nobody looked at them yet
		if pod := k.known[uid]; pod != nil && shouldRun(pod) {
			k.add(pod)
		}
	}
	return k.volumes.MarkAllPodsAdded()
}
