package kubelet_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/kubelet"
)

// reportsHealth returns whether the summaries of these Kubernetes libraries tell of health. Those of 1.37 do not.
func reportsHealth() bool {
	_, has := reflect.TypeFor[stats.VolumeStats]().FieldByName("VolumeHealthStats")
	return has
}

// TestVolumeMetrics has the numbers of upstream's tests.
func TestVolumeMetrics(t *testing.T) {
	t.Parallel()
	const numbers = `"availableBytes":5663154176,"capacityBytes":10434699264,"usedBytes":4217896960,"inodes":655360,"inodesFree":655344,"inodesUsed":16`
	const claim = `,"pvcRef":{"name":"testpvc","namespace":"testns"}`
	tests := []struct {
		name    string
		volumes []string // of one pod each
		want    []string
	}{
		{"none", nil, nil},
		{"no claim", []string{numbers}, nil},
		{"without health", []string{numbers + claim}, []string{
			`available_bytes{testns/testpvc} 5.663154176e+09`, `capacity_bytes{testns/testpvc} 1.0434699264e+10`,
			`inodes{testns/testpvc} 655360`, `inodes_free{testns/testpvc} 655344`, `inodes_used{testns/testpvc} 16`,
			`used_bytes{testns/testpvc} 4.21789696e+09`,
		}},
		{"with health", []string{numbers, numbers + claim + `,"volumeHealthStats":{"abnormal":true}`, numbers + claim}, []string{
			`available_bytes{testns/testpvc} 5.663154176e+09`, `capacity_bytes{testns/testpvc} 1.0434699264e+10`,
			`health_status_abnormal{testns/testpvc} 1`,
			`inodes{testns/testpvc} 655360`, `inodes_free{testns/testpvc} 655344`, `inodes_used{testns/testpvc} 16`,
			`used_bytes{testns/testpvc} 4.21789696e+09`,
		}},
		{
			"unknown numbers, healthy and another claim", []string{
				`"capacityBytes":7,"pvcRef":{"name":"a","namespace":"ns-b"},"volumeHealthStats":{"abnormal":false}`,
				`"capacityBytes":8,"pvcRef":{"name":"b","namespace":"ns"}`,
			}, []string{
				`available_bytes{ns/b} 0`, `available_bytes{ns-b/a} 0`, `capacity_bytes{ns/b} 8`, `capacity_bytes{ns-b/a} 7`,
				`health_status_abnormal{ns-b/a} 0`,
				`inodes{ns/b} 0`, `inodes{ns-b/a} 0`, `inodes_free{ns/b} 0`, `inodes_free{ns-b/a} 0`,
				`inodes_used{ns/b} 0`, `inodes_used{ns-b/a} 0`, `used_bytes{ns/b} 0`, `used_bytes{ns-b/a} 0`,
			},
		},
	}
	if !reportsHealth() {
		for i := range tests {
			tests[i].want = slices.DeleteFunc(tests[i].want, func(line string) bool { return strings.HasPrefix(line, "health_status_abnormal") })
		}
	}
	short := strings.NewReplacer("kubelet_volume_stats_", "", `namespace="`, "", `",persistentvolumeclaim="`, "/", `"}`, "}")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			summary := &stats.Summary{}
			for _, text := range tt.volumes {
				var of stats.VolumeStats
				testcheck.NoError(t, json.Unmarshal([]byte("{"+text+"}"), &of))
				summary.Pods = append(summary.Pods, stats.PodStats{VolumeStats: []stats.VolumeStats{of}})
			}
			var got []string
			headers := map[string]int{}
			for line := range strings.Lines(string(kubelet.MetricsOf(summary))) {
				if strings.HasPrefix(line, "#") {
					headers[strings.Fields(line)[2]]++
					continue
				}
				got = append(got, strings.TrimSpace(short.Replace(line)))
				name, _, _ := strings.Cut(line, "{")
				testcheck.Equal(t, "HELP and TYPE of "+name, 2, headers[name])
			}
			testcheck.Equal(t, "metrics", tt.want, got)
		})
	}
}

// TestMetricsText is the whole text of one metric.
func TestMetricsText(t *testing.T) {
	t.Parallel()
	summary := &stats.Summary{Pods: []stats.PodStats{{VolumeStats: []stats.VolumeStats{{PVCRef: &stats.PVCReference{Namespace: "n", Name: "c"}}}}}}
	first, _, _ := strings.Cut(string(kubelet.MetricsOf(summary)), "# HELP kubelet_volume_stats_capacity_bytes")
	testcheck.Equal(t, "text", `# HELP kubelet_volume_stats_available_bytes [ALPHA] Number of available bytes in the volume
# TYPE kubelet_volume_stats_available_bytes gauge
kubelet_volume_stats_available_bytes{namespace="n",persistentvolumeclaim="c"} 0
`, first)
}
