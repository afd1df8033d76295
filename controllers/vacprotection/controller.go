package vacprotection

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"

	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/sim"
)

// finalizer keeps a class while it is in use.
//
// Upstream: pkg/volume/util VACProtectionFinalizer (v1.36).
const finalizer = "kubernetes.io/vac-protection"

// Config configures New.
type Config struct {
	Process   *sim.Process
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory
}

// controller is the VolumeAttributesClass protection controller.
//
// Upstream: pkg/controller/volume/vacprotection Controller (v1.36).
type controller struct {
	client  kubernetes.Interface
	classes storagelisters.VolumeAttributesClassLister
	volumes corelisters.PersistentVolumeLister
	claims  corelisters.PersistentVolumeClaimLister
	queue   *sim.Queue[string] // of classes
}

// New adds the controller to its process. It registers with the informers, and adds a queue with one
// worker to the process. It must be called before the host starts.
func New(cfg Config) {
	classes := cfg.Informers.Storage().V1().VolumeAttributesClasses()
	volumes, claims := cfg.Informers.Core().V1().PersistentVolumes(), cfg.Informers.Core().V1().PersistentVolumeClaims()
	c := &controller{
		client: cfg.Client, classes: classes.Lister(), volumes: volumes.Lister(), claims: claims.Lister(),
		queue: sim.NewQueue[string](cfg.Process, sim.QueueConfig{Name: "vacprotection"}),
	}
	eventhandler.Add(classes.Informer(), func(_, class *storagev1.VolumeAttributesClass) { c.changed(class) }, nil)
	eventhandler.Add(volumes.Informer(),
		func(old, volume *corev1.PersistentVolume) { c.dropped(ofVolume(old), ofVolume(volume)) },
		func(volume *corev1.PersistentVolume) { c.dropped(ofVolume(volume), nil) })
	eventhandler.Add(claims.Informer(),
		func(old, claim *corev1.PersistentVolumeClaim) { c.dropped(ofClaim(old), ofClaim(claim)) },
		func(claim *corev1.PersistentVolumeClaim) { c.dropped(ofClaim(claim), nil) })
	cfg.Process.GateWorkers(classes.Informer().HasSynced)
	cfg.Process.GateWorkers(volumes.Informer().HasSynced)
	cfg.Process.GateWorkers(claims.Informer().HasSynced)
	c.queue.Work(c.sync)
}

// Matches reports whether a change of a claim or a volume concerns the controller: it changes which
// classes the object refers to. old is nil for a new object, obj for a deleted one.
func Matches(old, obj metav1.Object) bool { return !slices.Equal(referenced(old), referenced(obj)) }

func referenced(obj metav1.Object) []string {
	switch obj := obj.(type) {
	case *corev1.PersistentVolume:
		return ofVolume(obj)
	case *corev1.PersistentVolumeClaim:
		return ofClaim(obj)
	default:
		return nil
	}
}

// ofVolume returns the classes that a volume refers to. The volume may be nil.
func ofVolume(volume *corev1.PersistentVolume) []string {
	if volume == nil {
		return nil
	}
	return distinct(volume.Spec.VolumeAttributesClassName)
}

// ofClaim returns the classes that a claim refers to, sorted. The claim may be nil.
//
// Upstream: pkg/controller/volume/vacprotection getPVCReferencedVACNames (v1.36).
func ofClaim(claim *corev1.PersistentVolumeClaim) []string {
	if claim == nil {
		return nil
	}
	var target *string
	if status := claim.Status.ModifyVolumeStatus; status != nil {
		target = &status.TargetVolumeAttributesClassName
	}
	return distinct(claim.Spec.VolumeAttributesClassName, claim.Status.CurrentVolumeAttributesClassName, target)
}

// distinct returns the names that are set, sorted and without duplicates.
func distinct(names ...*string) []string {
	var set []string
	for _, name := range names {
		if name != nil && *name != "" {
			set = append(set, *name)
		}
	}
	slices.Sort(set)
	return slices.Compact(set)
}

func (c *controller) changed(class *storagev1.VolumeAttributesClass) {
	if deleted, protected := class.DeletionTimestamp != nil, slices.Contains(class.Finalizers, finalizer); deleted == protected {
		c.queue.Add(class.Name)
	}
}

// dropped adds the classes that an object refers to no longer.
//
// Differs: upstream ignores objects whose deletion was noticed by a relist; their class may then
// stay.
//
// Upstream: pkg/controller/volume/vacprotection pvcUpdated, pvcDeleted, pvUpdated, pvDeleted (v1.36).
func (c *controller) dropped(before, after []string) {
	for _, class := range before {
		if !slices.Contains(after, class) {
			c.queue.Add(class)
		}
	}
}

// sync adds or removes the finalizer of a class, if that is due.
//
// Upstream: pkg/controller/volume/vacprotection processVAC (v1.36).
func (c *controller) sync(ctx context.Context, name string) error {
	class, err := c.classes.Get(name)
	if err != nil {
		return nil // a lister fails with NotFound only
	}
	protected := slices.Contains(class.Finalizers, finalizer)
	changed := class.DeepCopy()
	switch {
	case class.DeletionTimestamp == nil && !protected:
		changed.Finalizers = append(changed.Finalizers, finalizer)
	case class.DeletionTimestamp != nil && protected && !c.used(name):
		changed.Finalizers = slices.DeleteFunc(changed.Finalizers, func(f string) bool { return f == finalizer })
	default:
		return nil
	}
	_, err = c.client.StorageV1().VolumeAttributesClasses().Update(ctx, changed, metav1.UpdateOptions{})
	return err
}

// used reports whether a volume or a claim in the caches refers to the class.
//
// Upstream: pkg/controller/volume/vacprotection isBeingUsed (v1.36), with indexes.
func (c *controller) used(class string) bool {
	volumes, err := c.volumes.List(labels.Everything())
	if err != nil || slices.ContainsFunc(volumes, func(v *corev1.PersistentVolume) bool {
		return slices.Contains(ofVolume(v), class)
	}) {
		return true // a lister does not fail
	}
	claims, err := c.claims.List(labels.Everything())
	return err != nil || slices.ContainsFunc(claims, func(claim *corev1.PersistentVolumeClaim) bool {
		return slices.Contains(ofClaim(claim), class)
	})
}
