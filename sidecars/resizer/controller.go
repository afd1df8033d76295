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

// The delay after the first failure, which doubles with each further one, and the longest delay.
//
// Upstream: external-resizer --retry-interval-start, --retry-interval-max.
const (
	backoffMin = time.Second
	backoffMax = 5 * time.Minute
)

// Config configures a Controller.
type Config struct {
	Process    *sim.Process
	Client     kubernetes.Interface
	Informers  informers.SharedInformerFactory
	DriverName string
	Recorder   record.EventRecorder
	Conn       grpc.ClientConnInterface // to the driver's controller service; each call leaves the process
	// ExtraModifyMetadata passes the names of claim and volume to ControllerModifyVolume, as parameters:
	// --extra-modify-metadata.
	ExtraModifyMetadata bool
}

// A Controller is the resizer of one driver. Its state belongs to the tasks of its process.
type Controller struct {
	cfg     Config
	driver  *driver.Driver
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	queue   *sim.Queue[string] // claims, namespace/name

	failed   map[types.UID]bool // claims whose last attempt failed finally
	modifier *modifier          // nil: no claim has needed a modification
}

// New registers the resizer's queues, workers and handlers with its process. They run when the host
// runs.
//
// Differs: upstream has 10 workers.
//
// Upstream: external-resizer pkg/controller NewResizeController (2.3.0).
func New(cfg Config) *Controller {
	core := cfg.Informers.Core().V1()
	c := &Controller{
		cfg: cfg, driver: driver.New(cfg.DriverName, cfg.Conn),
		claims: core.PersistentVolumeClaims().Lister(), volumes: core.PersistentVolumes().Lister(),
		queue: sim.NewQueue[string](cfg.Process,
			sim.QueueConfig{Name: "claims", BackoffMin: backoffMin, BackoffMax: backoffMax}),
		failed: map[types.UID]bool{},
	}
	eventhandler.Add(core.PersistentVolumeClaims().Informer(), c.claimChanged, c.claimGone)
	c.queue.Work(c.sync)
	return c
}

func (c *Controller) claimChanged(was, is *corev1.PersistentVolumeClaim) {
	key := is.Namespace + "/" + is.Name
	if expansionChanged(was, is) {
		c.queue.Add(key)
	}
	if modificationChanged(was, is) {
		if c.modifier == nil {
			c.modifier = newModifier(c)
		}
		c.modifier.queue.Add(key)
	}
}

func (c *Controller) claimGone(claim *corev1.PersistentVolumeClaim) {
	delete(c.failed, claim.UID)
	c.modifier.forget(claim.UID)
}

// NeedsSync reports whether a resizer must process a change of a claim. before is nil for a new
// claim.
func NeedsSync(before, after *corev1.PersistentVolumeClaim) bool {
	return expansionChanged(before, after) || modificationChanged(before, after)
}

// expansionChanged reports whether the expansion of a changed claim must be looked at. before is nil
// for a new claim.
//
// Upstream: external-resizer pkg/controller updatePVC (2.3.0).
func expansionChanged(before, after *corev1.PersistentVolumeClaim) bool {
	switch {
	case !needsExpansion(after):
		return false
	case before == nil:
		return true
	}
	oldRequest, newRequest := requested(before), requested(after)
	return oldRequest.Cmp(newRequest) != 0 || resize.Status(before) != resize.Status(after) || !needsExpansion(before)
}

// needsExpansion reports whether a claim is bound and requests more than its capacity.
func needsExpansion(claim *corev1.PersistentVolumeClaim) bool {
	asked, has := requested(claim), resize.Capacity(claim)
	return claim.Status.Phase == corev1.ClaimBound && claim.Spec.VolumeName != "" && asked.Cmp(has) > 0
}

func requested(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	return claim.Spec.Resources.Requests[corev1.ResourceStorage]
}

// sync expands the volume of a claim if necessary and if this resizer is responsible now.
//
// Upstream: external-resizer pkg/controller syncPVC (2.3.0).
func (c *Controller) sync(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	claim, err := c.claims.PersistentVolumeClaims(namespace).Get(name)
	if err != nil || !needsExpansion(claim) {
		return nil //nolint:nilerr // deleted
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
	size, responsible := decide(claim, volume, c.failed[claim.UID])
	if !responsible {
		return nil
	}
	if !capabilities[csispec.ControllerServiceCapability_RPC_EXPAND_VOLUME] {
		return c.leaveToNode(ctx, claim, volume, size)
	}
	return c.grow(ctx, key, claim, volume, size)
}

// decide returns the size to which a volume is expanded next, and whether the resizer is
// responsible now. It is not while a node must finish first, nor after a final failure for the size
// that is still requested.
//
// Upstream: external-resizer pkg/controller expandAndRecover (2.3.0).
func decide(
	claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume, failed bool,
) (size resource.Quantity, responsible bool) {
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
