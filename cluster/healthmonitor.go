package cluster

import (
	"cmp"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sidecars/healthmonitor"
)

// statsPeriodDefault is how often kubelets measure volumes.
//
// Upstream: pkg/kubelet/apis/config VolumeStatsAggPeriod (v1.36).
const statsPeriodDefault = time.Minute

// healthEventSource precedes the driver's name in the source of the health monitor's events.
//
// Upstream: external-health-monitor cmd/csi-external-health-monitor-controller (0.18).
const healthEventSource = "csi-pv-monitor-controller-"

// statsPeriod returns how often kubelets measure volumes; 0: on request.
func (cfg Config) statsPeriod() time.Duration {
	if cfg.HealthMonitor {
		return cmp.Or(cfg.VolumeStatsPeriod, statsPeriodDefault)
	}
	return cfg.VolumeStatsPeriod
}

// healthMonitor returns the health monitor of the driver. It sleeps until the driver has a volume.
func (d *csiDriver) healthMonitor() sidecar {
	return sidecar{
		recipe: recipe{
			name: "healthmonitor", filters: healthFilters,
			wakes: []wake{{resource: "persistentvolumes", match: func(obj fake.Object) bool {
				source := obj.(*corev1.PersistentVolume).Spec.CSI
				return source != nil && source.Driver == d.Name
			}}},
			start: func(p ComponentContext) error {
				healthmonitor.New(healthmonitor.Config{
					Process: p.Process, Informers: p.Informers, DriverName: d.Name, NodeWatcher: true,
					Recorder: events.New(events.Config{
						Process: p.Process, Client: p.Client, Source: healthEventSource + d.Name, Periodic: true,
					}),
					Conn: p.driverConn(d.Name, d.controller),
				})
				return nil
			},
		},
		needed: d.has.can(csispec.ControllerServiceCapability_RPC_GET_VOLUME) || d.has.can(csispec.ControllerServiceCapability_RPC_LIST_VOLUMES),
	}
}

// healthFilters passes only changes of nodes. Everything else is read at the next check.
func healthFilters(func() informers.SharedInformerFactory) []fake.Filter {
	never := func(_, _ fake.Object) bool { return false }
	return []fake.Filter{
		{Resource: "persistentvolumes", Match: never},
		{Resource: "persistentvolumeclaims", Match: never},
		{Resource: "pods", Match: never},
		{Resource: "events", Fields: "involvedObject.kind=PersistentVolumeClaim", Match: never},
		{Resource: "nodes", Match: func(old, node fake.Object) bool {
			before, _ := old.(*corev1.Node)
			after, _ := node.(*corev1.Node)
			return healthmonitor.IsNodeChange(before, after)
		}},
	}
}

// healthServices are the services of a driver on block devices that report the health of volumes.
type healthServices interface {
	Controller() csispec.ControllerServer
	Node(nodeID string, fs *nodefs.Real) csispec.NodeServer
}
