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

// finalizer keeps a claim while pods use it.
//
// Upstream: pkg/volume/util PVCProtectionFinalizer (v1.36).
const finalizer = "kubernetes.io/pvc-protection"

// Config configures New.
type Config struct {
	Process   *sim.Process
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory
}

// A controller is the PVC protection controller. Its process's host runs it; it has no exported
// methods.
//
// Differs: upstream processes all queued claims of a namespace together with one list of pods,
// which may be old for the last claim. Here each claim has its own list.
//
// Upstream: pkg/controller/volume/pvcprotection Controller (v1.36).
type controller struct {
	client kubernetes.Interface
	lister corelisters.PersistentVolumeClaimLister
	pods   cache.Indexer
	queue  *sim.Queue[string] // "namespace/name"
}

// New creates the controller. It registers with the informers, and adds a queue with one worker to
// the process. It must be called before the host starts.
func New(cfg Config) {
	claims := cfg.Informers.Core().V1().PersistentVolumeClaims()
	pods := cfg.Informers.Core().V1().Pods()
	c := &controller{
		client: cfg.Client,
		lister: claims.Lister(),
		pods:   pods.Informer().GetIndexer(),
		queue:  sim.NewQueue[string](cfg.Process, sim.QueueConfig{Name: "pvcprotection"}),
	}
	podclaims.AddIndex(c.pods)
	cfg.Process.HandlersEnqueue()
	cfg.Process.Remembers(nil)
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
		panic(fmt.Sprintf("pvcprotection: add handler to informer: %v %v", claimErr, podErr))
	}
	cfg.Process.GateWorkers(claims.Informer().HasSynced)
	cfg.Process.GateWorkers(pods.Informer().HasSynced)
	c.queue.Work(c.sync)
}

func (c *controller) claimChanged(claim *corev1.PersistentVolumeClaim) {
	if needsFinalizer(claim) || isKeptByFinalizer(claim) {
		c.queue.Add(claim.Namespace + "/" + claim.Name)
	}
}

// podChanged queues a pod's claims if the pod may have stopped using them.
//
// Differs: upstream ignores the forced deletion of a pod that runs by its status, although the pod
// then no longer uses the claim of an ephemeral volume.
//
// Upstream: pkg/controller/volume/pvcprotection enqueuePVCs (v1.36).
func (c *controller) podChanged(pod *corev1.Pod) {
	if pod.Spec.NodeName == "" || podclaims.Terminated(pod) || isShutDown(pod) {
		c.queueClaimsOf(pod)
	}
}

// podReplaced is podChanged for an update, which may replace a pod by another of its name.
func (c *controller) podReplaced(old, pod *corev1.Pod) {
	c.podChanged(pod)
	if old.UID != pod.UID {
		c.queueClaimsOf(old)
	}
}

// podDeleted queues a pod's claims. The pod may be in a tombstone.
func (c *controller) podDeleted(obj any) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	c.queueClaimsOf(obj.(*corev1.Pod))
}

func (c *controller) queueClaimsOf(pod *corev1.Pod) {
	for _, key := range podclaims.Keys(pod) {
		c.queue.Add(key)
	}
}

// errUnseen requeues a claim that is used by a pod which is not in the cache. The cache may never
// see the pod, if it is deleted while the watch is broken.
var errUnseen = errors.New("in use by a pod that is not in the cache yet")

// sync adds a claim's finalizer, or removes it if the claim is being deleted and not in use.
//
// Differs: upstream waits for an event of a pod that only the server knows, and so may wait
// indefinitely.
//
// Upstream: pkg/controller/volume/pvcprotection processPVC (v1.36).
func (c *controller) sync(ctx context.Context, key string) error {
	claim := c.claim(key)
	switch {
	case claim == nil:
		return nil
	case needsFinalizer(claim):
		return c.writeFinalizers(ctx, claim, append(slices.Clone(claim.Finalizers), finalizer))
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
		slices.DeleteFunc(slices.Clone(claim.Finalizers), func(f string) bool { return f == finalizer }))
}

// claim returns the cached claim of a key, or nil.
func (c *controller) claim(key string) *corev1.PersistentVolumeClaim {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		panic("pvcprotection: key of claim: " + err.Error())
	}
	claim, _ := c.lister.PersistentVolumeClaims(namespace).Get(name) // a lister fails with NotFound only
	return claim
}

func (c *controller) isUsedByCache(key string, claim *corev1.PersistentVolumeClaim) bool {
	return slices.ContainsFunc(podclaims.Using(c.pods, key), func(pod *corev1.Pod) bool { return uses(pod, claim) })
}

// isUsedLive reports whether a pod on the server uses the claim. If the claim changes meanwhile,
// the next write conflicts.
func (c *controller) isUsedLive(ctx context.Context, claim *corev1.PersistentVolumeClaim) (bool, error) {
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

func (c *controller) writeFinalizers(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, finalizers []string,
) error {
	changed := claim.DeepCopy()
	changed.Finalizers = finalizers
	_, err := c.client.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, changed, metav1.UpdateOptions{})
	return err
}

func needsFinalizer(claim *corev1.PersistentVolumeClaim) bool {
	return claim.DeletionTimestamp == nil && !slices.Contains(claim.Finalizers, finalizer)
}

// isKeptByFinalizer reports whether a claim is being deleted and has the finalizer.
func isKeptByFinalizer(claim *corev1.PersistentVolumeClaim) bool {
	return claim.DeletionTimestamp != nil && slices.Contains(claim.Finalizers, finalizer)
}
