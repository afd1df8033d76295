package kubelet_test

import (
	"context"
	"strings"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/volumehealth"
	"github.com/volsim/volsim/kubelet"
	"github.com/volsim/volsim/sim/trace"
)

// TestPeriodicVolumeStats measures once after the last change and when a period has passed, and
// returns the last result in between.
func TestPeriodicVolumeStats(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(cfg *cluster.Config) { cfg.VolumeStatsPeriod = time.Minute })
	w.rest()
	testcheck.Equal(t, "measurements without pods", 0, w.measurements())
	w.create("web", "data")
	testcheck.NoError(t, w.WaitForPod(t.Context(), "default", "web", corev1.PodRunning))
	got, err := w.VolumeStats(t.Context(), "node-1")
	testcheck.NoError(t, err)
	testcheck.Equal(t, "volumes before the first measurement", 0, len(got.Pods[0].VolumeStats))
	w.rest()
	once := w.measurements()
	testcheck.NoError(t, w.WriteFile("default", "web", "data", "f", []byte("twelve bytes")))
	w.rest()
	testcheck.Equal(t, "measurements at rest", once, w.measurements())
	testcheck.Equal(t, "used, as measured before", uint64(0), w.used("data"))
	w.pass(59 * time.Second)
	testcheck.Equal(t, "used before the period ends", uint64(0), w.used("data"))
	w.pass(time.Minute)
	testcheck.Equal(t, "used", uint64(12), w.used("data"))
	w.delete("web")
	w.rest()
	last := w.measurements()
	w.pass(time.Hour)
	w.rest()
	testcheck.Equal(t, "measurements after the pod is gone", last, w.measurements())
}

// measurements returns the number of measurements of volumes so far.
func (w *world) measurements() int {
	n := 0
	for _, r := range w.Trace().Records() {
		if r.Kind == trace.KindDriver && r.Verb == "NodeGetVolumeStats" {
			n++
		}
	}
	return n
}

func (w *world) used(volume string) uint64 {
	w.t.Helper()
	got, err := w.VolumeStats(w.t.Context(), "node-1")
	testcheck.NoError(w.t, err)
	return used(got, volume)
}

// sickNode is a connection to a driver whose volumes have a condition.
type sickNode struct {
	grpc.ClientConnInterface
	condition *volumehealth.Condition
}

func (s sickNode) Invoke(ctx context.Context, method string, request, reply any, options ...grpc.CallOption) error {
	err := s.ClientConnInterface.Invoke(ctx, method, request, reply, options...)
	switch r := reply.(type) {
	case *csispec.NodeGetCapabilitiesResponse:
		r.Capabilities = append(r.Capabilities, &csispec.NodeServiceCapability{Type: &csispec.NodeServiceCapability_Rpc{
			Rpc: &csispec.NodeServiceCapability_RPC{Type: volumehealth.NodeCapability},
		}})
	case *csispec.NodeGetVolumeStatsResponse:
		volumehealth.SetRetired(r, *s.condition)
	}
	return err
}

// TestHealthOfPods reports an abnormal volume at each measurement as an event on its pod, and as a
// metric. The world comes to rest meanwhile.
func TestHealthOfPods(t *testing.T) {
	t.Parallel()
	const metric = `kubelet_volume_stats_health_status_abnormal{namespace="default",persistentvolumeclaim="data"} `
	tests := []struct {
		name      string
		condition volumehealth.Condition
		metric    string
		events    func(count string) []string
	}{
		{"normal", volumehealth.Condition{Message: "fine"}, metric + "0", func(string) []string { return nil }},
		{
			"abnormal",
			volumehealth.Condition{Abnormal: true, Message: "The target path of the volume doesn't exist"},
			metric + "1",
			func(count string) []string {
				return []string{count + " Warning VolumeConditionAbnormal web: Volume data: The target path of the volume doesn't exist"}
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(cfg *cluster.Config) {
				cfg.HealthMonitor = true
				cfg.Interceptors.Driver = func(_ string, conn grpc.ClientConnInterface) grpc.ClientConnInterface {
					return sickNode{conn, &tt.condition}
				}
			})
			w.create("web", "data")
			testcheck.NoError(t, w.WaitForPod(t.Context(), "default", "web", corev1.PodRunning))
			w.rest()
			testcheck.Equal(t, "events", tt.events("x1"), w.events("VolumeConditionAbnormal"))
			w.pass(time.Minute)
			testcheck.Equal(t, "events after a minute", tt.events("x2"), w.events("VolumeConditionAbnormal"))
			got, err := w.VolumeStats(t.Context(), "node-1")
			testcheck.NoError(t, err)
			if text := string(kubelet.MetricsOf(got)); strings.Contains(text, tt.metric+"\n") != reportsHealth() {
				t.Errorf("a line %q: want %t in\n%s", tt.metric, reportsHealth(), text)
			}
		})
	}
}

// TestMeasurementFails keeps no old result of a volume that can no longer be measured.
func TestMeasurementFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(cfg *cluster.Config) { cfg.VolumeStatsPeriod = time.Minute })
	w.create("web", "data")
	testcheck.NoError(t, w.WaitForPod(t.Context(), "default", "web", corev1.PodRunning))
	testcheck.NoError(t, w.WriteFile("default", "web", "data", "f", []byte("twelve bytes")))
	w.rest()
	testcheck.Equal(t, "used", uint64(12), w.used("data"))
	w.driver = func(method string, _ any) error {
		if method == "NodeGetVolumeStats" {
			return status.Error(codes.Internal, "broken")
		}
		return nil
	}
	w.pass(2 * time.Minute)
	testcheck.Equal(t, "used", uint64(0), w.used("data"))
}
