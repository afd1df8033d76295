package kubelet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// A volumeMetric is a gauge with one value for each claim. value returns false if there is none.
type volumeMetric struct {
	name, help string
	value      func(of *stats.VolumeStats) (float64, bool)
}

// volumeMetrics are the metrics of volumes, by name.
//
// Upstream: pkg/kubelet/metrics/collectors volumeStatsCollector (v1.36), and its texts.
var volumeMetrics = []volumeMetric{
	{"available_bytes", "Number of available bytes in the volume", orZero(func(of *stats.VolumeStats) *uint64 { return of.AvailableBytes })},
	{"capacity_bytes", "Capacity in bytes of the volume", orZero(func(of *stats.VolumeStats) *uint64 { return of.CapacityBytes })},
	{
		"health_status_abnormal", "Abnormal volume health status. The count is either 1 or 0. " +
			"1 indicates the volume is unhealthy, 0 indicates volume is healthy",
		func(of *stats.VolumeStats) (float64, bool) {
			abnormal, reported := healthOf(of)
			if abnormal {
				return 1, reported
			}
			return 0, reported
		},
	},
	{"inodes", "Maximum number of inodes in the volume", orZero(func(of *stats.VolumeStats) *uint64 { return of.Inodes })},
	{"inodes_free", "Number of free inodes in the volume", orZero(func(of *stats.VolumeStats) *uint64 { return of.InodesFree })},
	{"inodes_used", "Number of used inodes in the volume", orZero(func(of *stats.VolumeStats) *uint64 { return of.InodesUsed })},
	{"used_bytes", "Number of used bytes in the volume", orZero(func(of *stats.VolumeStats) *uint64 { return of.UsedBytes })},
}

// orZero returns the value of a number that may be unknown. Upstream takes unknown numbers for 0, and
// so do those that read its metrics.
func orZero(number func(of *stats.VolumeStats) *uint64) func(of *stats.VolumeStats) (float64, bool) {
	return func(of *stats.VolumeStats) (float64, bool) {
		if n := number(of); n != nil {
			return float64(*n), true
		}
		return 0, true
	}
}

// VolumeMetrics returns the usage of the claims on the node in Prometheus's text format. A claim that
// several pods use appears once. Volumes without a claim do not appear. It measures as Summary does.
//
// Upstream: pkg/kubelet/metrics/collectors volumeStatsCollector.CollectWithStability (v1.36).
func (k *Kubelet) VolumeMetrics(ctx context.Context) []byte { return metricsOf(k.Summary(ctx)) }

func metricsOf(summary *stats.Summary) []byte {
	volumes := claimVolumes(summary)
	var text strings.Builder
	for _, metric := range volumeMetrics {
		name := "kubelet_volume_stats_" + metric.name
		header := fmt.Sprintf("# HELP %s [ALPHA] %s\n# TYPE %s gauge\n", name, metric.help, name)
		for _, of := range volumes {
			if value, has := metric.value(of); has {
				fmt.Fprintf(&text, "%s%s{namespace=%q,persistentvolumeclaim=%q} %s\n", header, name,
					of.PVCRef.Namespace, of.PVCRef.Name, strconv.FormatFloat(value, 'g', -1, 64))
				header = ""
			}
		}
	}
	return []byte(text.String())
}

// claimVolumes returns the first volume of each claim, by namespace and name.
func claimVolumes(summary *stats.Summary) []*stats.VolumeStats {
	var all []*stats.VolumeStats
	seen := map[stats.PVCReference]bool{}
	for i := range summary.Pods {
		for j := range summary.Pods[i].VolumeStats {
			of := &summary.Pods[i].VolumeStats[j]
			if of.PVCRef != nil && !seen[*of.PVCRef] {
				seen[*of.PVCRef] = true
				all = append(all, of)
			}
		}
	}
	slices.SortFunc(all, func(a, b *stats.VolumeStats) int {
		return cmp.Or(cmp.Compare(a.PVCRef.Namespace, b.PVCRef.Namespace), cmp.Compare(a.PVCRef.Name, b.PVCRef.Name))
	})
	return all
}
