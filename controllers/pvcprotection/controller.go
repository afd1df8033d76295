package pvcprotection

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/internal/podclaims"
	"github.com/volsim/volsim/sim"
)

// Finalizer is what keeps a claim.
//
// Upstream: pkg/volume/util PVCProtectionFinalizer (v1.36).
const Finalizer = "kubernetes.io/pvc-protection"

// Config is what New must be told.
type Config struct {
	Process   *sim.Process
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory
}

// Controller is the PVC protection controller. It is moved by its component's host; nothing of it is called from
// outside.
//
// Differs: upstream takes up all queued claims of a namespace at a time and lists the namespace's pods once for them, so
// that the last of them is judged by a list that may be old. Here each claim has a list of its own.
//
// Upstream: pkg/controller/volume/pvcprotection Controller (v1.36).
type Controller struct {
	client kubernetes.Interface
	lister corelisters.PersistentVolumeClaimLister
	pods   cache.Indexer
	queue  *sim.Queue[string] // "namespace/name"
}

// New makes the controller: it registers with the informers and makes the queue, with one worker. It must be called before
// the host starts.
func New(cfg Config) *Controller {
	claims := cfg.Informers.Core().V1().PersistentVolumeClaims()
	pods := cfg.Informers.Core().V1().Pods()
	c := &Controller{
		client: cfg.Client,
		lister: claims.Lister(),
		pods:   pods.Informer().GetIndexer(),
		queue:  sim.NewQueue[string](cfg.Process, sim.QueueConfig{Name: "pvcprotection"}),
	}
	podclaims.AddIndex(c.pods)
	_, claimErr := claims.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.claimChanged(obj.(*corev1.PersistentVolumeClaim)) },
		UpdateFunc: func(_, obj any) { c.claimChanged(obj.(*corev1.PersistentVolumeClaim)) },
	})
	_, podErr := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.podChanged(obj.(*corev1.Pod)) },
		UpdateFunc: func(old, obj any) { c.podReplaced(old.(*corev1.Pod), obj.(*corev1.Pod)) },
		DeleteFunc: c.podDeleted,
	})
	if claimErr != nil || podErr != nil {
		panic(fmt.Sprintf("pvcprotection: informer stopped before it was started: %v %v", claimErr, podErr))
	}
	cfg.Process.GateWorkers(claims.Informer().HasSynced)
	cfg.Process.GateWorkers(pods.Informer().HasSynced)
	c.queue.Work(c.sync)
	return c
}

func (c *Controller) claimChanged(claim *corev1.PersistentVolumeClaim) {
	if needsFinalizer(claim) || isKeptByFinalizer(claim) {
		c.queue.Add(claim.Namespace + "/" + claim.Name)
	}
}

// podChanged queues a pod's claims if the pod may have stopped counting for them.
//
// Differs: upstream does not look at claims when a pod that runs by its status is deleted by force, though from then on
// it does not count for the claim of an ephemeral volume.
//
// Upstream: pkg/controller/volume/pvcprotection enqueuePVCs (v1.36).
func (c *Controller) podChanged(pod *corev1.Pod) {
	if pod.Spec.NodeName == "" || podclaims.Terminated(pod) || isShutDown(pod) {
		c.queueClaimsOf(pod)
	}
}

// podReplaced is podChanged; an update may also hide that a pod was deleted and another made under its name.
func (c *Controller) podReplaced(old, pod *corev1.Pod) {
	c.podChanged(pod)
	if old.UID != pod.UID {
		c.queueClaimsOf(old)
	}
}

// podDeleted queues a pod's claims; the pod may come as a tombstone.
func (c *Controller) podDeleted(obj any) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	c.queueClaimsOf(obj.(*corev1.Pod))
}

func (c *Controller) queueClaimsOf(pod *corev1.Pod) {
	for _, key := range podclaims.Keys(pod) {
		c.queue.Add(key)
	}
}

// errUnseen brings a claim back that is used by a pod which the cache has not seen. It may never see it: where the watch
// breaks and the pod goes meanwhile, nobody tells of its end.
var errUnseen = errors.New("in use by a pod that is not in the cache yet")

// sync puts a claim's finalizer on, or takes it off if the claim is being deleted and not in use.
//
// Differs: upstream waits for the end of a pod that only the server knows of, too, and may wait for ever.
//
// Upstream: pkg/controller/volume/pvcprotection processPVC (v1.36).
func (c *Controller) sync(ctx context.Context, key string) error {
	claim := c.claim(key)
	switch {
	case claim == nil:
		return nil
	case needsFinalizer(claim):
		return c.writeFinalizers(ctx, claim, append(slices.Clone(claim.Finalizers), Finalizer))
	case !isKeptByFinalizer(claim) || c.isUsedByCache(key, claim):
		return nil
	}
	used, err := c.isUsedLive(ctx, claim)
	switch {
	case err != nil:
		return err
	case used:
		return errUnseen
	}
	return c.writeFinalizers(ctx, claim,
		slices.DeleteFunc(slices.Clone(claim.Finalizers), func(f string) bool { return f == Finalizer }))
}

// claim returns the cached claim of a key; nil when there is none.
func (c *Controller) claim(key string) *corev1.PersistentVolumeClaim {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		panic("pvcprotection: key of a claim: " + err.Error())
	}
	claim, _ := c.lister.PersistentVolumeClaims(namespace).Get(name) // a lister fails with NotFound only
	return claim
}

func (c *Controller) isUsedByCache(key string, claim *corev1.PersistentVolumeClaim) bool {
	return slices.ContainsFunc(podclaims.Using(c.pods, key), func(pod *corev1.Pod) bool { return uses(pod, claim) })
}

// isUsedLive asks the server. The claim may have changed when it answers; the write that follows would conflict.
func (c *Controller) isUsedLive(ctx context.Context, claim *corev1.PersistentVolumeClaim) (bool, error) {
	pods, err := c.client.CoreV1().Pods(claim.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, fmt.Errorf("list pods in %s: %w", claim.Namespace, err)
	}
	for i := range pods.Items {
		if uses(&pods.Items[i], claim) {
			return true, nil
		}
	}
	return false, nil
}

func (c *Controller) writeFinalizers(ctx context.Context, claim *corev1.PersistentVolumeClaim, finalizers []string) error {
	changed := claim.DeepCopy()
	changed.Finalizers = finalizers
	_, err := c.client.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, changed, metav1.UpdateOptions{})
	return err
}

func needsFinalizer(claim *corev1.PersistentVolumeClaim) bool {
	return claim.DeletionTimestamp == nil && !slices.Contains(claim.Finalizers, Finalizer)
}

// isKeptByFinalizer tells whether a claim is being deleted and only then kept by the finalizer.
func isKeptByFinalizer(claim *corev1.PersistentVolumeClaim) bool {
	return claim.DeletionTimestamp != nil && slices.Contains(claim.Finalizers, Finalizer)
}
