package kubelet

import (
	"cmp"
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/sim"
)

// syncFrequency is how often a pod is synced whose volumes need periodic remounts.
//
// Upstream: pkg/kubelet/apis/config SyncFrequency (v1.36).
const syncFrequency = time.Minute

// watchRemounts starts the queue of pods whose volumes need periodic remounts.
//
// Differs: upstream syncs all pods, each with up to 50% jitter; this kubelet syncs only these pods,
// without jitter.
func (k *Kubelet) watchRemounts() {
	k.cfg.SyncFrequency = cmp.Or(k.cfg.SyncFrequency, syncFrequency)
	k.remounts = sim.NewQueue[types.UID](k.cfg.Process, sim.QueueConfig{Name: "pods again", Background: true})
	k.remounts.Work(k.syncRemount)
}

// scheduleRemount schedules a sync of a pod if its volumes need periodic remounts.
func (k *Kubelet) scheduleRemount(uid types.UID) {
	if _, waits := k.remountsScheduled[uid]; !waits && k.volumes.RequiresRemount(uid) {
		k.remountsScheduled[uid] = struct{}{}
		k.remounts.AddAfter(uid, k.cfg.SyncFrequency)
	}
}

// syncRemount sets the volumes of a pod up again, and schedules the next time.
//
// Upstream: pkg/kubelet/pod_workers.go completeWork (v1.36).
func (k *Kubelet) syncRemount(_ context.Context, uid types.UID) error {
	delete(k.remountsScheduled, uid)
	pod := k.known[uid]
	if pod == nil || !shouldRun(pod) || k.rejected[uid] != nil {
		return nil
	}
	k.volumes.AddPod(pod)
	k.scheduleRemount(uid)
	return nil
}
