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

// errOldList says that the API server has a pod of the node that the cache has not seen yet.
var errOldList = errors.New("the list of pods is old")

// begin runs first, with the pods of the node: all workers wait for the caches.
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

// unseenPods returns the pods that have volumes on the disk and are not in the cache.
func (k *Kubelet) unseenPods() []types.UID {
	return slices.DeleteFunc(k.volumes.ReconstructedPods(), func(uid types.UID) bool { return k.known[uid] != nil })
}

// syncStart lets the volume manager clean up the volumes of deleted pods. The first list may be
// old. Before it cleans up a pod that is not in the list, it asks the API server and waits for the
// cache.
//
// Differs: upstream relies on a list that may be old, and ends the containers of a pod that is not
// in it.
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
	for _, uid := range k.volumes.ReconstructedPods() { // some may have been seen meanwhile and are not added yet
		if pod := k.known[uid]; pod != nil && shouldRun(pod) {
			k.add(pod)
		}
	}
	return k.volumes.MarkAllPodsAdded()
}
