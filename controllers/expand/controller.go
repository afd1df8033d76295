package expand

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/internal/resize"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim"
)

// EventSource is the component that reports the controller's events.
const EventSource = "volume_expand"

// The reasons of the controller's events.
//
// Upstream: pkg/controller/volume/events ExternalExpanding, pkg/kubelet/events VolumeResizeFailed,
// VolumeResizeSuccess (v1.36).
const (
	reasonExternal  = "ExternalExpanding"
	reasonFailed    = "VolumeResizeFailed"
	reasonSucceeded = "VolumeResizeSuccessful"
)

// Annotations of a claim and of a volume.
//
// Upstream: pkg/volume/util/types VolumeResizerKey, pkg/volume/util AnnPreResizeCapacity (v1.36).
const (
	resizerAnnotation   = "volume.kubernetes.io/storage-resizer"
	preResizeAnnotation = "volume.alpha.kubernetes.io/pre-resize-capacity"
)

// Config configures New.
type Config struct {
	Process   *sim.Process
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory
	Recorder  record.EventRecorder // as EventSource
	Plugins   *plugins.Manager
}

// controller is the expand controller.
//
// Upstream: pkg/controller/volume/expand expandController (v1.36).
type controller struct {
	cfg    Config
	client kubernetes.Interface
	claims corelisters.PersistentVolumeClaimLister
	queue  *sim.Queue[types.NamespacedName] // of claims
}

// New adds the controller to its process. It registers with the informer, and adds a queue with one
// worker to the process. It must be called before the host starts.
//
// Differs: upstream has ten workers.
func New(cfg Config) {
	claims := cfg.Informers.Core().V1().PersistentVolumeClaims()
	c := &controller{
		cfg: cfg, client: cfg.Client, claims: claims.Lister(),
		queue: sim.NewQueue[types.NamespacedName](cfg.Process, sim.QueueConfig{Name: "volume_expand"}),
	}
	eventhandler.Add(claims.Informer(), func(old, claim *corev1.PersistentVolumeClaim) {
		if Concerns(cfg.Informers, old, claim) {
			c.queue.Add(types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name})
		}
	}, nil)
	cfg.Process.GateWorkers(claims.Informer().HasSynced)
	cfg.Process.GateWorkers(cfg.Informers.Core().V1().PersistentVolumes().Informer().HasSynced) // for Concerns
	c.queue.Work(c.sync)
}

// Concerns reports whether a change of a claim concerns the controller: it is bound to a volume that is
// not known as one of a CSI driver, and is new, or its request or its capacity has grown. old is nil for
// a new claim, claim for a deleted one.
//
// Differs: upstream also handles claims of CSI volumes. It reports for each that it waits for an external
// controller, whenever the claim grows.
func Concerns(seen informers.SharedInformerFactory, old, claim *corev1.PersistentVolumeClaim) bool {
	if !needsSync(old, claim) {
		return false
	}
	volume, err := seen.Core().V1().PersistentVolumes().Lister().Get(claim.Spec.VolumeName)
	return err != nil || volume.Spec.CSI == nil
}

// needsSync reports whether a claim is bound, and is new, or its request or its capacity has grown.
//
// Upstream: pkg/controller/volume/expand NewExpandController, enqueuePVC (v1.36).
func needsSync(old, claim *corev1.PersistentVolumeClaim) bool {
	switch {
	case claim == nil, claim.Status.Phase != corev1.ClaimBound:
		return false
	case old == nil:
		return true
	}
	requested, before := requestOf(claim), requestOf(old)
	capacity, capacityBefore := resize.Capacity(claim), resize.Capacity(old)
	return requested.Cmp(before) > 0 || capacity.Cmp(capacityBefore) > 0
}

// sync expands the volume of a claim, if it requests more than it has, or removes what an expansion
// has left at the volume.
//
// Upstream: pkg/controller/volume/expand syncHandler (v1.36).
func (c *controller) sync(ctx context.Context, key types.NamespacedName) error {
	claim, err := c.claims.PersistentVolumeClaims(key.Namespace).Get(key.Name)
	if err != nil {
		return nil // a lister fails with NotFound only
	}
	volume, err := c.client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("failed to get PV %q: %w", claim.Spec.VolumeName, err)
	}
	if ref := volume.Spec.ClaimRef; ref == nil || ref.Namespace != claim.Namespace || ref.UID != claim.UID {
		return fmt.Errorf("persistent Volume is not bound to PVC being updated : %s", key)
	}
	requested, capacity := requestOf(claim), resize.Capacity(claim)
	if _, annotated := volume.Annotations[preResizeAnnotation]; requested.Cmp(capacity) <= 0 && !annotated {
		return nil
	}
	spec := &plugins.Spec{PersistentVolume: volume}
	if plugin, driver, migrated := plugins.Migrated().DriverOf(spec); migrated {
		return c.leaveToResizer(ctx, claim, plugin, driver)
	}
	found, err := findExpander(c.cfg.Plugins, spec)
	switch {
	case err != nil:
		c.cfg.Recorder.Event(claim, corev1.EventTypeWarning, reasonExternal, externalMessage)
		return nil //nolint:nilerr // the event says what it waits for; the plugins do not change
	case found.VolumeExpander == nil:
		c.cfg.Recorder.Event(claim, corev1.EventTypeNormal, reasonExternal, externalMessage)
		return nil
	}
	if _, annotated := volume.Annotations[preResizeAnnotation]; annotated && finished(claim, volume) {
		return c.patchVolume(ctx, volume, map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{preResizeAnnotation: nil}},
		})
	}
	if err := c.grow(ctx, claim, volume, found); err != nil {
		c.cfg.Recorder.Event(claim, corev1.EventTypeWarning, reasonFailed, err.Error())
		return err
	}
	return nil
}

const externalMessage = "waiting for an external controller to expand this PVC"

// leaveToResizer annotates the claim of a migrated volume for the external resizer.
func (c *controller) leaveToResizer(ctx context.Context, claim *corev1.PersistentVolumeClaim, plugin, driver string) error {
	c.cfg.Recorder.Eventf(claim, corev1.EventTypeNormal, reasonExternal,
		"CSI migration enabled for %s; waiting for external resizer to expand the pvc", plugin)
	if _, err := resize.Patch(ctx, c.client, claim, withResizer(claim, driver), false); err != nil {
		err = fmt.Errorf("error setting resizer annotation to pvc %s/%s, with error %w", claim.Namespace, claim.Name, err)
		c.cfg.Recorder.Event(claim, corev1.EventTypeWarning, reasonExternal, err.Error())
		return err
	}
	return nil
}

// withResizer returns a copy of the claim with the name of who expands it.
func withResizer(claim *corev1.PersistentVolumeClaim, name string) *corev1.PersistentVolumeClaim {
	claim = claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, resizerAnnotation, name)
	return claim
}
