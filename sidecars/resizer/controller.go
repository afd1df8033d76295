package resizer

import (
	"context"
	"fmt"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/internal/resize"
	"github.com/volsim/volsim/sidecars/internal/driver"
	"github.com/volsim/volsim/sim"
)

// The delay after a first failure, which doubles with each, and the longest one.
//
// Upstream: external-resizer --retry-interval-start, --retry-interval-max.
const (
	backoffMin = time.Second
	backoffMax = 5 * time.Minute
)

// Config is what New must be told.
type Config struct {
	Process    *sim.Process
	Client     kubernetes.Interface
	Informers  informers.SharedInformerFactory
	DriverName string
	Recorder   record.EventRecorder
	Conn       grpc.ClientConnInterface // to the driver's controller; each call leaves the component
}

// Controller is one driver's resizer. Its state belongs to its component's strands.
type Controller struct {
	cfg     Config
	driver  *driver.Driver
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	queue   *sim.Queue[string] // claims, namespace/name

	failed map[types.UID]bool // claims whose last attempt has failed for good
}

// New makes the resizer of one driver: its queue, its worker and its handlers. It begins to work with the host.
//
// Differs: upstream has 10 workers.
//
// Upstream: external-resizer pkg/controller NewResizeController (2.3.0).
func New(cfg Config) *Controller {
	core := cfg.Informers.Core().V1()
	c := &Controller{
		cfg: cfg, driver: driver.New(cfg.DriverName, cfg.Conn),
		claims: core.PersistentVolumeClaims().Lister(), volumes: core.PersistentVolumes().Lister(),
		queue:  sim.NewQueue[string](cfg.Process, sim.QueueConfig{Name: "claims", BackoffMin: backoffMin, BackoffMax: backoffMax}),
		failed: map[types.UID]bool{},
	}
	eventhandler.Add(core.PersistentVolumeClaims().Informer(), func(was, is *corev1.PersistentVolumeClaim) {
		if NeedsSync(was, is) {
			c.queue.Add(is.Namespace + "/" + is.Name)
		}
	}, func(claim *corev1.PersistentVolumeClaim) { delete(c.failed, claim.UID) })
	c.queue.Work(c.sync)
	return c
}

// NeedsSync tells whether a resizer has to look at a claim that comes (was is nil) or changes, or is to know that it went (is is
// nil).
//
// Upstream: external-resizer pkg/controller updatePVC (2.3.0).
func NeedsSync(was, is *corev1.PersistentVolumeClaim) bool {
	switch {
	case is == nil:
		return true
	case !needsExpansion(is):
		return false
	case was == nil:
		return true
	}
	before, after := requested(was), requested(is)
	return before.Cmp(after) != 0 || resize.Status(was) != resize.Status(is) || !needsExpansion(was)
}

// needsExpansion tells whether a claim is bound, and asks for more than it has.
func needsExpansion(claim *corev1.PersistentVolumeClaim) bool {
	asked, has := requested(claim), resize.Capacity(claim)
	return claim.Status.Phase == corev1.ClaimBound && claim.Spec.VolumeName != "" && asked.Cmp(has) > 0
}

func requested(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	return claim.Spec.Resources.Requests[corev1.ResourceStorage]
}

// sync grows the volume of a claim, if that is to grow, and it is this resizer's turn.
//
// Upstream: external-resizer pkg/controller syncPVC (2.3.0).
func (c *Controller) sync(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	claim, err := c.claims.PersistentVolumeClaims(namespace).Get(name)
	if err != nil || !needsExpansion(claim) {
		return nil //nolint:nilerr // it is gone
	}
	volume, err := c.volumes.Get(claim.Spec.VolumeName)
	if err != nil {
		return fmt.Errorf("PV %q bound to pvc %q not found", claim.Spec.VolumeName, key)
	}
	ref, source := volume.Spec.ClaimRef, volume.Spec.CSI
	if source == nil || source.Driver != c.cfg.DriverName || ref == nil || ref.UID != claim.UID {
		return nil
	}
	capabilities, err := c.driver.Capabilities(ctx)
	if err != nil {
		return err
	}
	size, mine := decide(claim, volume, c.failed[claim.UID])
	if !mine {
		return nil
	}
	if !capabilities[csispec.ControllerServiceCapability_RPC_EXPAND_VOLUME] {
		return c.leaveToNode(ctx, claim, volume, size)
	}
	return c.grow(ctx, key, claim, volume, size)
}

// decide tells to which size a volume is to be grown next, and whether that is the resizer's to do at all now: what a node
// has to end first is not, nor is what has failed for good and is still asked for.
//
// Upstream: external-resizer pkg/controller expandAndRecover (2.3.0).
func decide(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume, failed bool) (size resource.Quantity, mine bool) {
	asked, allocated, status := requested(claim), resize.Allocated(claim), resize.Status(claim)
	has := volume.Spec.Capacity[corev1.ResourceStorage]
	size = asked
	switch status {
	case corev1.PersistentVolumeClaimNodeResizePending, corev1.PersistentVolumeClaimNodeResizeInProgress:
		if has.Cmp(asked) >= 0 || !allocated.IsZero() && has.Cmp(allocated) >= 0 {
			return size, false
		}
		size = orElse(allocated, asked)
	case corev1.PersistentVolumeClaimNodeResizeInfeasible:
		size = orElse(allocated, asked)
	case corev1.PersistentVolumeClaimControllerResizeInProgress:
		if has.Cmp(asked) >= 0 || !failed {
			size = orElse(allocated, asked)
		}
	case corev1.PersistentVolumeClaimControllerResizeInfeasible:
		if has.Cmp(asked) >= 0 {
			size = orElse(allocated, asked)
		}
		if size.Cmp(allocated) == 0 {
			return size, false
		}
	default:
		if has.Cmp(asked) >= 0 {
			size = orElse(allocated, asked)
		}
	}
	return size, true
}

func orElse(size, other resource.Quantity) resource.Quantity {
	if size.IsZero() {
		return other
	}
	return size
}
