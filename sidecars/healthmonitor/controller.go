package healthmonitor

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/volsim/volsim/internal/volumehealth"
	"github.com/volsim/volsim/sidecars/internal/driver"
	"github.com/volsim/volsim/sim"
)

// The defaults of Config.
//
// Upstream: external-health-monitor --list-volumes-interval, --monitor-interval.
const (
	listIntervalDefault  = 5 * time.Minute
	checkIntervalDefault = time.Minute
)

// Config configures a Controller.
type Config struct {
	Process    *sim.Process
	Informers  informers.SharedInformerFactory // of events, those about claims suffice
	DriverName string
	Recorder   record.EventRecorder     // periodic
	Conn       grpc.ClientConnInterface // to the driver's controller service; each call leaves the process

	ListInterval  time.Duration // between two checks of a driver that lists; 0: 5 min
	CheckInterval time.Duration // between two checks of a volume by other drivers; 0: 1 min
	NodeWatcher   bool          // report claims used on nodes that have failed
}

// A controller is the health monitor of one driver. Its state belongs to the tasks of its process.
type controller struct {
	cfg     Config
	driver  *driver.Driver
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	events  cache.Indexer
	queue   *sim.Queue[check]
}

// A check is a unit of work: one volume, or, if it is empty, all of them.
type check struct{ volume string }

// String returns the check for the trace.
func (c check) String() string { return cmp.Or(c.volume, "all volumes") }

// New registers the monitor's queues, workers and handlers with its process. They run when the host
// runs.
//
// Differs: upstream exits if the driver cannot report health; this monitor makes no further calls.
// Without listing, upstream notices a new volume within five minutes, and checks at most ten volumes
// a minute: it has 10 workers.
//
// Upstream: external-health-monitor pkg/controller NewPVMonitorController (0.18).
func New(cfg Config) {
	cfg.ListInterval = cmp.Or(cfg.ListInterval, listIntervalDefault)
	cfg.CheckInterval = cmp.Or(cfg.CheckInterval, checkIntervalDefault)
	core := cfg.Informers.Core().V1()
	c := &controller{
		cfg: cfg, driver: driver.New(cfg.DriverName, cfg.Conn),
		claims: core.PersistentVolumeClaims().Lister(), volumes: core.PersistentVolumes().Lister(),
		events: core.Events().Informer().GetIndexer(),
		queue:  sim.NewQueue[check](cfg.Process, sim.QueueConfig{Name: "checks", Background: true}),
	}
	core.PersistentVolumeClaims().Informer()
	core.PersistentVolumes().Informer()
	if err := core.Events().Informer().AddIndexers(cache.Indexers{reportsOfClaims: indexReport}); err != nil {
		panic("healthmonitor: index of events: " + err.Error())
	}
	if cfg.NodeWatcher {
		watchNodes(c)
	}
	c.queue.Add(check{})
	c.queue.Work(c.sync)
}

// sync makes one check, and schedules the next one of all volumes. A failed call is not repeated
// before.
//
// Upstream: external-health-monitor pkg/controller checkPVsHealthConditionByListVolumes,
// AddPVsToQueue, checkPVWorker (0.18).
func (c *controller) sync(ctx context.Context, item check) error {
	capabilities, err := c.driver.Capabilities(ctx)
	if err != nil {
		return err
	}
	ask := methodOf(capabilities)
	switch {
	case item.volume != "":
		c.checkVolume(ctx, ask, item.volume)
	case ask.list != nil:
		c.queue.AddAfter(check{}, c.cfg.ListInterval)
		c.checkAll(ctx, ask)
	case ask.get != nil:
		c.queue.AddAfter(check{}, c.cfg.CheckInterval)
		for _, volume := range c.boundVolumes() {
			c.queue.Add(check{volume.Name})
		}
	}
	return nil
}

// boundVolumes returns the driver's bound volumes by name.
func (c *controller) boundVolumes() []*corev1.PersistentVolume {
	volumes, err := c.volumes.List(labels.Everything())
	if err != nil {
		panic("healthmonitor: list volumes: " + err.Error()) // the cache has no errors
	}
	volumes = slices.DeleteFunc(volumes, func(v *corev1.PersistentVolume) bool { return !c.isMonitored(v) })
	slices.SortFunc(volumes, func(a, b *corev1.PersistentVolume) int { return strings.Compare(a.Name, b.Name) })
	return volumes
}

// isMonitored reports whether a volume is the driver's, and bound.
func (c *controller) isMonitored(volume *corev1.PersistentVolume) bool {
	source := volume.Spec.CSI
	return source != nil && source.Driver == c.cfg.DriverName && source.VolumeHandle != "" &&
		volume.Status.Phase == corev1.VolumeBound && volume.Spec.ClaimRef != nil
}

// checkAll asks for all volumes at once. The volumes are those that exist afterwards.
//
// Upstream: external-health-monitor pkg/csi-handler CheckControllerListVolumeStatuses (0.18).
func (c *controller) checkAll(ctx context.Context, ask method) {
	conditions, err := ask.list(ctx, c.driver)
	if err != nil {
		return // the failure is in the trace
	}
	for _, volume := range c.boundVolumes() {
		condition, reported := conditions[volume.Spec.CSI.VolumeHandle]
		if reported || ask.listsAbnormal {
			c.report(volume, condition)
		}
	}
}

// checkVolume asks for one volume, which may have been released or deleted meanwhile.
//
// Upstream: external-health-monitor pkg/csi-handler CheckControllerVolumeStatus (0.18).
func (c *controller) checkVolume(ctx context.Context, ask method, name string) {
	volume, err := c.volumes.Get(name)
	if err != nil || !c.isMonitored(volume) || volume.DeletionTimestamp != nil || ask.get == nil {
		return
	}
	condition, reported, err := ask.get(ctx, c.driver, volume.Spec.CSI.VolumeHandle)
	if err == nil && reported {
		c.report(volume, condition)
	}
}

// claimOf returns the claim of a bound volume, or nil.
func (c *controller) claimOf(volume *corev1.PersistentVolume) *corev1.PersistentVolumeClaim {
	ref := volume.Spec.ClaimRef
	claim, err := c.claims.PersistentVolumeClaims(ref.Namespace).Get(ref.Name)
	if err != nil || claim.UID != ref.UID {
		return nil
	}
	return claim
}

// report records the condition of a volume as an event on its claim.
//
// Differs: a claim of the same name that is not the volume's has no events.
func (c *controller) report(volume *corev1.PersistentVolume, condition volumehealth.Condition) {
	claim := c.claimOf(volume)
	switch {
	case claim == nil:
	case condition.Abnormal:
		c.cfg.Recorder.Event(claim, corev1.EventTypeWarning, reasonAbnormal, condition.Message)
	case c.isReportedAbnormal(claim):
		c.cfg.Recorder.Event(claim, corev1.EventTypeNormal, reasonNormal, messageNormal)
	}
}
