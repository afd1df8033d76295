package pvprotection

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/sim"
)

// finalizer keeps a volume while it is bound.
//
// Upstream: pkg/volume/util PVProtectionFinalizer (v1.36).
const finalizer = "kubernetes.io/pv-protection"

// Config configures New.
type Config struct {
	Process   *sim.Process
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory
}

// controller is the PV protection controller.
//
// Upstream: pkg/controller/volume/pvprotection Controller (v1.36).
type controller struct {
	client kubernetes.Interface
	lister corelisters.PersistentVolumeLister
	queue  *sim.Queue[string] // name
}

// New adds the controller to its process. It registers with the informer, and adds a queue with one worker to
// the process. It must be called before the host starts.
func New(cfg Config) {
	volumes := cfg.Informers.Core().V1().PersistentVolumes()
	c := &controller{
		client: cfg.Client,
		lister: volumes.Lister(),
		queue:  sim.NewQueue[string](cfg.Process, sim.QueueConfig{Name: "pvprotection"}),
	}
	cfg.Process.HandlersEnqueue()
	cfg.Process.Remembers(nil)
	_, err := volumes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.changed(obj.(*corev1.PersistentVolume)) },
		UpdateFunc: func(_, obj any) { c.changed(obj.(*corev1.PersistentVolume)) },
	})
	if err != nil {
		panic("pvprotection: add handler to informer: " + err.Error())
	}
	cfg.Process.GateWorkers(volumes.Informer().HasSynced)
	c.queue.Work(c.sync)
}

func (c *controller) changed(volume *corev1.PersistentVolume) {
	if decide(volume) != keep {
		c.queue.Add(volume.Name)
	}
}

func (c *controller) sync(ctx context.Context, name string) error {
	volume, err := c.lister.Get(name)
	if err != nil {
		return nil // a lister fails with NotFound only
	}
	verdict := decide(volume)
	if verdict == keep {
		return nil
	}
	changed := volume.DeepCopy()
	if verdict == protect {
		changed.Finalizers = append(changed.Finalizers, finalizer)
	} else {
		changed.Finalizers = slices.DeleteFunc(changed.Finalizers, func(f string) bool { return f == finalizer })
	}
	_, err = c.client.CoreV1().PersistentVolumes().Update(ctx, changed, metav1.UpdateOptions{})
	return err
}

// verdict is what to do with a volume's finalizer.
type verdict int

const (
	keep    verdict = iota // leave it unchanged
	protect                // add it
	release                // remove it
)

// decide returns what to do: a volume has the finalizer unless it is being deleted and not Bound.
//
// Upstream: pkg/controller/volume/pvprotection processPV, isBeingUsed (v1.36).
func decide(volume *corev1.PersistentVolume) verdict {
	has := slices.Contains(volume.Finalizers, finalizer)
	switch {
	case volume.DeletionTimestamp == nil && !has:
		return protect
	case volume.DeletionTimestamp != nil && has && volume.Status.Phase != corev1.VolumeBound:
		return release
	default:
		return keep
	}
}
