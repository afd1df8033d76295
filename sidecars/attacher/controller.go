package attacher

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/sidecars/internal/driver"
	"github.com/volsim/volsim/sim"
)

// The defaults of Config.
//
// Upstream: external-attacher --retry-interval-start, --retry-interval-max.
//
// Differs: upstream has 10 workers.
const (
	defaultBackoffMin = time.Second
	defaultBackoffMax = 5 * time.Minute
	defaultWorkers    = 4
)

// Config configures a Controller.
type Config struct {
	Process    *sim.Process
	Client     kubernetes.Interface
	Informers  informers.SharedInformerFactory
	DriverName string
	Conn       grpc.ClientConnInterface // to the driver's controller service; each call leaves the process

	BackoffMin time.Duration // delay after the first failure, doubled with each further one; 0: 1 s
	BackoffMax time.Duration // longest delay; 0: 5 min
	Workers    int           // number of attachments synced at once; 0: 4
}

// A Controller is the attacher of one driver. Its state belongs to the tasks of its process.
type Controller struct {
	cfg         Config
	driver      *driver.Driver
	finalizer   string
	volumes     corelisters.PersistentVolumeLister
	attachments storagelisters.VolumeAttachmentLister
	nodes       storagelisters.CSINodeLister

	attachmentQueue *sim.Queue[string] // by name
	volumeQueue     *sim.Queue[string] // by name
}

// New registers the attacher's queues, workers and handlers with its process. They run when the
// host runs.
//
// Upstream: external-attacher pkg/controller NewCSIAttachController (4.13.0).
func New(cfg Config) *Controller {
	if cfg.BackoffMin == 0 {
		cfg.BackoffMin = defaultBackoffMin
	}
	if cfg.BackoffMax == 0 {
		cfg.BackoffMax = defaultBackoffMax
	}
	if cfg.Workers == 0 {
		cfg.Workers = defaultWorkers
	}
	core, storage := cfg.Informers.Core().V1(), cfg.Informers.Storage().V1()
	queue := func(name string) *sim.Queue[string] {
		return sim.NewQueue[string](cfg.Process,
			sim.QueueConfig{Name: name, BackoffMin: cfg.BackoffMin, BackoffMax: cfg.BackoffMax})
	}
	c := &Controller{
		cfg:             cfg,
		driver:          driver.New(cfg.DriverName, cfg.Conn),
		finalizer:       finalizerName(cfg.DriverName),
		volumes:         core.PersistentVolumes().Lister(),
		attachments:     storage.VolumeAttachments().Lister(),
		nodes:           storage.CSINodes().Lister(),
		attachmentQueue: queue("attachments"),
		volumeQueue:     queue("volumes"),
	}
	handle(storage.VolumeAttachments().Informer(), cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { c.attachmentChanged(nil, obj.(*storagev1.VolumeAttachment)) },
		UpdateFunc: func(before, after any) {
			c.attachmentChanged(before.(*storagev1.VolumeAttachment), after.(*storagev1.VolumeAttachment))
		},
		DeleteFunc: c.attachmentGone,
	})
	handle(core.PersistentVolumes().Informer(), cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.volumeChanged(obj.(*corev1.PersistentVolume)) },
		UpdateFunc: func(_, obj any) { c.volumeChanged(obj.(*corev1.PersistentVolume)) },
	})
	for range cfg.Workers {
		c.attachmentQueue.Work(c.syncAttachment)
	}
	c.volumeQueue.Work(c.syncVolume)
	return c
}

func handle(informer cache.SharedIndexInformer, handler cache.ResourceEventHandler) {
	if _, err := informer.AddEventHandler(handler); err != nil {
		panic("attacher: event handler: " + err.Error())
	}
}

// finalizerName returns the finalizer of a driver's attacher, for VolumeAttachments and
// PersistentVolumes.
//
// Upstream: external-attacher pkg/controller GetFinalizerName, SanitizeDriverName (4.13.0).
func finalizerName(driverName string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-':
			return r
		default:
			return '-'
		}
	}, driverName)
	if strings.HasSuffix(name, "-") {
		name += "X"
	}
	return "external-attacher/" + name
}

func (c *Controller) attachmentChanged(before, after *storagev1.VolumeAttachment) {
	if after.Spec.Attacher == c.cfg.DriverName && (before == nil || needsSync(before, after)) {
		c.attachmentQueue.Add(after.Name)
	}
}

// needsSync reports whether an update requires a sync. Updates of only the errors in the status do
// not: this attacher wrote them, and an immediate sync would bypass its back-off.
//
// Upstream: external-attacher pkg/controller shouldEnqueueVAChange (4.13.0).
func needsSync(before, after *storagev1.VolumeAttachment) bool {
	if before.ResourceVersion == after.ResourceVersion {
		return true
	}
	if before.Status.AttachError == nil && before.Status.DetachError == nil &&
		after.Status.AttachError == nil && after.Status.DetachError == nil {
		return true
	}
	same := *after
	same.ResourceVersion = before.ResourceVersion
	same.Status.AttachError, same.Status.DetachError = before.Status.AttachError, before.Status.DetachError
	same.ManagedFields = before.ManagedFields
	return !equality.Semantic.DeepEqual(before, &same)
}

// attachmentGone queues the volume, which may wait for the deletion of the attachment.
func (c *Controller) attachmentGone(obj any) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	attachment, ok := obj.(*storagev1.VolumeAttachment)
	if ok && attachment.Spec.Source.PersistentVolumeName != nil {
		c.volumeQueue.Add(*attachment.Spec.Source.PersistentVolumeName)
	}
}

func (c *Controller) volumeChanged(volume *corev1.PersistentVolume) {
	if volume.DeletionTimestamp != nil && slices.Contains(volume.Finalizers, c.finalizer) {
		c.volumeQueue.Add(volume.Name)
	}
}

// syncAttachment attaches or detaches the volume of one VolumeAttachment.
//
// Upstream: external-attacher pkg/controller syncVA, SyncNewOrUpdatedVolumeAttachment (4.13.0).
func (c *Controller) syncAttachment(ctx context.Context, name string) error {
	capabilities, err := c.driver.Capabilities(ctx)
	if err != nil {
		return err
	}
	attachment, err := c.attachments.Get(name)
	if err != nil || attachment.Spec.Attacher != c.cfg.DriverName {
		return nil //nolint:nilerr // deleted
	}
	switch {
	case !capabilities[csispec.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME]:
		if attachment.Status.Attached {
			return nil
		}
		return c.markAttached(ctx, attachment, nil)
	case attachment.DeletionTimestamp != nil:
		return c.syncDetach(ctx, attachment)
	default:
		return c.syncAttach(ctx, attachment, capabilities)
	}
}

// source returns the volume of an attachment: its PersistentVolume's spec or the inline spec.
//
// Upstream: external-attacher pkg/controller getProcessedPVSpec (4.13.0).
func (c *Controller) source(
	attachment *storagev1.VolumeAttachment,
) (*corev1.PersistentVolumeSpec, *corev1.PersistentVolume, error) {
	from := attachment.Spec.Source
	switch {
	case from.PersistentVolumeName != nil && from.InlineVolumeSpec != nil:
		return nil, nil, errBothSources
	case from.PersistentVolumeName != nil:
		volume, err := c.volumes.Get(*from.PersistentVolumeName)
		if err != nil {
			return nil, nil, err
		}
		if volume.Spec.CSI == nil {
			return nil, nil, fmt.Errorf("pv spec contained non-csi source that was not migrated: %s", volume.Name)
		}
		return &volume.Spec, volume, nil
	case from.InlineVolumeSpec == nil:
		return nil, nil, errNoSource
	case from.InlineVolumeSpec.CSI == nil:
		return nil, nil, errNoCSISource
	default:
		return from.InlineVolumeSpec, nil, nil
	}
}
