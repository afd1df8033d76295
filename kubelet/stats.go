package kubelet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
// without statistics is left out. Each measurement is a suspension point. It must be called from a
// task of the kubelet's process.
//
// Differs: upstream measures each pod's volumes about once a minute and returns the last result;
// this kubelet measures on request. Values unknown to the plugin are left out instead of 0. It has
// no statistics of the node and of containers.
//
// Upstream: pkg/kubelet/server/stats volumeStatCalculator (v1.36).
func (k *Kubelet) Summary(ctx context.Context) *stats.Summary {
	summary := &stats.Summary{Node: stats.NodeStats{NodeName: k.cfg.Node}, Pods: []stats.PodStats{}}
	pods := slices.SortedFunc(maps.Values(k.known), func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	for _, pod := range pods {
		of := stats.PodStats{PodRef: stats.PodReference{Name: pod.Name, Namespace: pod.Namespace, UID: string(pod.UID)}}
		if pod.Status.StartTime != nil {
			of.StartTime = *pod.Status.StartTime
		}
		for _, volume := range k.volumes.MountedVolumes(pod.UID) {
			if measured, ok := k.volumeStats(ctx, pod, volume); ok {
				of.VolumeStats = append(of.VolumeStats, measured)
			}
		}
		summary.Pods = append(summary.Pods, of)
	}
	return summary
}

// volumeStats measures one volume of a pod.
func (k *Kubelet) volumeStats(ctx context.Context, pod *corev1.Pod,
	volume volumemanager.MountedVolume,
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
	if usage.Abnormal || usage.Message != "" {
		setHealth(&measured, usage.Abnormal)
	}
	if usage.Abnormal {
		k.recorder.Event(pod, corev1.EventTypeWarning, reasonAbnormal,
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
