package kubelet

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/sim"
)

// periodicUsage holds the results of the periodic measurement of the pods' volumes.
type periodicUsage struct {
	queue     *sim.Queue[string] // one key: the node's name
	scheduled bool               // the key is queued
	last      map[types.UID][]stats.VolumeStats
	recorder  record.EventRecorder // of abnormal volumes, which are reported at each measurement
}

// watchUsage starts the periodic measurement, if it is configured. It is in the background: a world
// in which nothing else happens is at rest.
//
// Differs: upstream measures each pod's volumes on their own, after 1 to 2 periods at random.
//
// Upstream: pkg/kubelet/server/stats fsResourceAnalyzer (v1.36).
func (k *Kubelet) watchUsage() {
	if k.cfg.StatsPeriod == 0 {
		return
	}
	k.usage = &periodicUsage{
		queue: sim.NewQueue[string](k.cfg.Process, sim.QueueConfig{Name: "volume usage", Background: true}),
		last:  map[types.UID][]stats.VolumeStats{},
		recorder: events.New(events.Config{
			Process: k.cfg.Process, Client: k.cfg.Client, Source: "kubelet", Host: k.cfg.Node, Periodic: true,
		}),
	}
	k.usage.queue.Work(k.syncUsage)
}

// scheduleUsage schedules the next measurement if there are pods.
func (k *Kubelet) scheduleUsage() {
	if k.usage == nil || k.usage.scheduled || len(k.known) == 0 {
		return
	}
	k.usage.scheduled = true
	k.usage.queue.AddAfter(k.cfg.Node, k.cfg.StatsPeriod)
}

// syncUsage measures the volumes of all pods.
//
// Upstream: pkg/kubelet/server/stats calcAndStoreStats (v1.36).
func (k *Kubelet) syncUsage(ctx context.Context, _ string) error {
	k.usage.scheduled = false
	k.scheduleUsage()
	for uid := range k.usage.last {
		if k.known[uid] == nil {
			delete(k.usage.last, uid)
		}
	}
	for _, pod := range k.sortedPods() {
		if all := k.measurePod(ctx, pod, k.usage.recorder); k.known[pod.UID] != nil { // it may be gone
			k.usage.last[pod.UID] = all
		}
	}
	return nil
}
