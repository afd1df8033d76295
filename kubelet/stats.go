package kubelet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/volsim/volsim/internal/podclaims"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/volumemanager"
)

// reasonAbnormal is the reason of the event for a volume in an abnormal condition.
//
// Upstream: pkg/kubelet/server/stats calcAndStoreStats (v1.36).
const reasonAbnormal = "VolumeConditionAbnormal"

// Summary returns the usage of the volumes of the node's pods, by namespace and name. A volume
// without statistics is left out. It measures the volumes, with one suspension point each, or returns
// the last results of Config.StatsPeriod. It must be called from a task of the kubelet's process.
//
// Differs: without Config.StatsPeriod, volumes are measured on request; upstream measures them in the
// background. Values unknown to the plugin are left out instead of 0. It has no statistics of the node
// and of containers.
//
// Upstream: pkg/kubelet/server/stats volumeStatCalculator (v1.36).
func (k *Kubelet) Summary(ctx context.Context) *stats.Summary {
	summary := &stats.Summary{Node: stats.NodeStats{NodeName: k.cfg.Node}, Pods: []stats.PodStats{}}
	for _, pod := range k.sortedPods() {
		of := stats.PodStats{PodRef: stats.PodReference{Name: pod.Name, Namespace: pod.Namespace, UID: string(pod.UID)}}
		if pod.Status.StartTime != nil {
			of.StartTime = *pod.Status.StartTime
		}
		if k.usage != nil {
			of.VolumeStats = k.usage.last[pod.UID]
		} else {
			of.VolumeStats = k.measurePod(ctx, pod, k.recorder)
		}
		summary.Pods = append(summary.Pods, of)
	}
	return summary
}

// sortedPods returns the pods of the node by namespace and name.
func (k *Kubelet) sortedPods() []*corev1.Pod {
	return slices.SortedFunc(maps.Values(k.known), func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
}

// measurePod measures the volumes of a pod. The recorder is for events about abnormal ones.
func (k *Kubelet) measurePod(ctx context.Context, pod *corev1.Pod, recorder record.EventRecorder) []stats.VolumeStats {
	var all []stats.VolumeStats
	for _, volume := range k.volumes.MountedVolumes(pod.UID) {
		if measured, ok := k.volumeStats(ctx, pod, volume, recorder); ok {
			all = append(all, measured)
		}
	}
	return all
}

// volumeStats measures one volume of a pod.
func (k *Kubelet) volumeStats(ctx context.Context, pod *corev1.Pod,
	volume volumemanager.MountedVolume, recorder record.EventRecorder,
) (measured stats.VolumeStats, ok bool) {
	if volume.Plugin.StatsProvider == nil {
		return measured, false
	}
	usage, err := volume.Plugin.StatsProvider.VolumeStats(ctx, volume.SpecName, pod.UID)
	if err != nil {
		if !errors.Is(err, plugins.ErrUnsupported) {
			logr.FromContextOrDiscard(ctx).V(2).Info("volume cannot be measured", "pod", pod.Namespace+"/"+pod.Name,
				"volume", volume.Name, "err", err.Error())
		}
		return measured, false
	}
	measured = stats.VolumeStats{
		Name: volume.Name, PVCRef: claimOf(pod, volume.Name),
		FsStats: stats.FsStats{
			Time:          metav1.NewTime(k.cfg.Process.Now()),
			CapacityBytes: optional(usage.CapacityBytes), UsedBytes: optional(usage.UsedBytes),
			AvailableBytes: optional(usage.AvailableBytes),
			Inodes:         optional(usage.Inodes), InodesUsed: optional(usage.InodesUsed),
			InodesFree: optional(usage.InodesFree),
		},
	}
	if usage.ReportsHealth || usage.Abnormal {
		setHealth(&measured, usage.Abnormal)
	}
	if usage.Abnormal {
		recorder.Event(pod, corev1.EventTypeWarning, reasonAbnormal,
			fmt.Sprintf("Volume %s: %s", volume.Name, usage.Message))
	}
	return measured, true
}

// setHealth sets a volume's condition in the types of the Kubernetes versions that have it, up to
// 1.36.
func setHealth(measured *stats.VolumeStats, abnormal bool) {
	health := fmt.Sprintf(`{"volumeHealthStats":{"abnormal":%t}}`, abnormal)
	if err := json.Unmarshal([]byte(health), measured); err != nil {
		panic(err) // the text is a constant
	}
}

// healthOf returns whether a volume's condition is reported, and abnormal; see setHealth.
func healthOf(measured *stats.VolumeStats) (abnormal, reported bool) {
	health := reflect.ValueOf(measured).Elem().FieldByName("VolumeHealthStats")
	if !health.IsValid() || health.IsNil() {
		return false, false
	}
	return health.Elem().FieldByName("Abnormal").Bool(), true
}

// optional returns a pointer to n, or nil if n is negative, which means unknown.
func optional(n int64) *uint64 {
	if n < 0 {
		return nil
	}
	u := uint64(n)
	return &u
}

// claimOf returns the claim behind a volume of a pod, or nil.
func claimOf(pod *corev1.Pod, volume string) *stats.PVCReference {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Name != volume {
			continue
		}
		if claim := podclaims.Name(pod, v); claim != "" {
			return &stats.PVCReference{Namespace: pod.Namespace, Name: claim}
		}
	}
	return nil
}
