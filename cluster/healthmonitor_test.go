package cluster_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/volumehealth"
	"github.com/volsim/volsim/sim"
)

// sickDriver is a connection to a driver of CSI 1.12 whose volumes are abnormal while sick is not "".
type sickDriver struct {
	grpc.ClientConnInterface
	sick *string
}

func (s sickDriver) Invoke(ctx context.Context, method string, request, reply any, options ...grpc.CallOption) error {
	err := s.ClientConnInterface.Invoke(ctx, method, request, reply, options...)
	condition := volumehealth.Condition{Abnormal: *s.sick != "", Message: *s.sick}
	switch r := reply.(type) {
	case *csispec.ControllerGetCapabilitiesResponse:
		r.Capabilities = append(r.Capabilities, &csispec.ControllerServiceCapability{Type: &csispec.ControllerServiceCapability_Rpc{
			Rpc: &csispec.ControllerServiceCapability_RPC{Type: volumehealth.ControllerCapability},
		}})
	case *csispec.NodeGetCapabilitiesResponse:
		r.Capabilities = append(r.Capabilities, &csispec.NodeServiceCapability{Type: &csispec.NodeServiceCapability_Rpc{
			Rpc: &csispec.NodeServiceCapability_RPC{Type: volumehealth.NodeCapability},
		}})
	case *csispec.ListVolumesResponse:
		for _, entry := range r.GetEntries() {
			if entry.Status == nil {
				entry.Status = &csispec.ListVolumesResponse_VolumeStatus{}
			}
			volumehealth.SetRetired(entry.GetStatus(), condition)
		}
	case *csispec.NodeGetVolumeStatsResponse:
		volumehealth.SetRetired(r, condition)
	}
	return err
}

// healthEvents are the events about health, by object: "xcount reason kind/name".
func healthEvents(c *cluster.Cluster) []string {
	var lines []string
	for _, obj := range c.Server().List("events") {
		if e := obj.(*corev1.Event); e.Reason == "VolumeConditionAbnormal" || e.Reason == "VolumeConditionNormal" || e.Reason == "NodeFailed" {
			lines = append(lines, fmt.Sprintf("x%d %s %s/%s", e.Count, e.Reason, e.InvolvedObject.Kind, e.InvolvedObject.Name))
		}
	}
	slices.SortFunc(lines, func(a, b string) int { return cmp.Compare(a[3:], b[3:]) })
	return lines
}

// TestHealthMonitor follows a volume that becomes abnormal and recovers, in a stepped world that is at
// rest in between.
func TestHealthMonitor(t *testing.T) {
	t.Parallel()
	sick := ""
	cfg := cluster.Config{Nodes: 1, HealthMonitor: true, Stepped: &sim.SteppedConfig{StepsMax: 20_000}}
	cfg.Interceptors.Driver = func(_ string, conn grpc.ClientConnInterface) grpc.ClientConnInterface {
		return sickDriver{conn, &sick}
	}
	c := testcheck.Must(cluster.New(cfg))
	t.Cleanup(func() { testcheck.NoError(t, c.Close()) })
	testcheck.NoError(t, c.Start(t.Context()), runPodWith(t.Context(), c, "web", "data", "1Gi"), c.Run(t.Context()))
	testcheck.Equal(t, "events of a healthy volume", nil, healthEvents(c))
	pass := func(d time.Duration) {
		t.Helper()
		process := c.Host().Process("time")
		c.User("time", func(context.Context) error {
			process.Sleep(d)
			return nil
		})
		testcheck.NoError(t, c.Run(t.Context()))
	}
	sick = "Volume not found"
	pass(5 * time.Minute)
	got := healthEvents(c)
	testcheck.Equal(t, "events of an abnormal volume", []string{"x1 VolumeConditionAbnormal PersistentVolumeClaim/data", "x1 VolumeConditionAbnormal Pod/web"}, got)
	sick = ""
	pass(5 * time.Minute)
	testcheck.Equal(t, "events of a recovered volume", []string{
		"x1 VolumeConditionAbnormal PersistentVolumeClaim/data", "x1 VolumeConditionAbnormal Pod/web",
		"x1 VolumeConditionNormal PersistentVolumeClaim/data",
	}, healthEvents(c))
	testcheck.NoError(t, c.Crash("healthmonitor"))
	pass(10 * time.Minute)
	testcheck.Equal(t, "events after a restart of the monitor", 3, len(healthEvents(c)))
}

// TestHealthMonitorSleeps checks that a world without volumes has no step for the monitor, and that a
// world without the monitor has no component of it.
func TestHealthMonitorSleeps(t *testing.T) {
	t.Parallel()
	steps := map[bool]int{}
	for _, on := range []bool{false, true} {
		c := testcheck.Must(cluster.New(cluster.Config{Nodes: 2, HealthMonitor: on, Stepped: &sim.SteppedConfig{}}))
		testcheck.NoError(t, c.Run(t.Context()))
		steps[on] = c.Host().(*sim.Stepped).Steps()
		testcheck.Equal(t, "is a component", on, slices.Contains(c.Components(), "healthmonitor"))
		testcheck.NoError(t, c.Close())
	}
	testcheck.Equal(t, "steps", steps[false], steps[true])
}
