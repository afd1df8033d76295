package kubelet

import (
	"cmp"
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/sim"
)

// syncFrequency is how often a pod is looked at again that has volumes which are set up again and again.
//
// Upstream: pkg/kubelet/apis/config SyncFrequency (v1.36).
const syncFrequency = time.Minute

// watchRemounts has pods looked at again that have volumes which are set up again and again.
//
// Differs: upstream looks at all pods, and at each after up to half as long again; here at those only, on time.
func (k *Kubelet) watchRemounts() {
	k.cfg.SyncFrequency = cmp.Or(k.cfg.SyncFrequency, syncFrequency)
	k.remounts = sim.NewQueue[types.UID](k.cfg.Process, sim.QueueConfig{Name: "pods again", Background: true})
	k.remounts.Work(k.syncRemount)
}

// scheduleRemount has a pod looked at again after a while, if it has volumes that are to be set up again.
func (k *Kubelet) scheduleRemount(uid types.UID) {
	if _, waits := k.remountsScheduled[uid]; !waits && k.volumes.RequiresRemount(uid) {
		k.remountsScheduled[uid] = struct{}{}
		k.remounts.AddAfter(uid, k.cfg.SyncFrequency)
	}
}

// syncRemount has the volumes of a pod set up again, and again after a while.
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
