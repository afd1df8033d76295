package simtest_test

import (
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

const (
	inUse   = "kubernetes.io/pvc-protection"
	workers = 2
)

// protector is an ordinary controller: it removes its finalizer from deleted claims that no pod uses. It
// is the code under test and does not depend on the bubble.
type protector struct {
	client kubernetes.Interface
	claims corelisters.PersistentVolumeClaimLister
	pods   corelisters.PodLister
	queue  workqueue.TypedRateLimitingInterface[string]
	drops  bool // it does not try again after an error
	live   bool // it asks the API server for the pods, and not only its cache, before it gives a claim up
}

// run returns when ctx has ended and all of the controller's goroutines have.
func (p *protector) run(ctx context.Context) {
	p.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	factory := informers.NewSharedInformerFactory(p.client, 0)
	claims, pods := factory.Core().V1().PersistentVolumeClaims(), factory.Core().V1().Pods()
	p.claims, p.pods = claims.Lister(), pods.Lister()
	claims.Informer().AddEventHandler(handler(func(c *corev1.PersistentVolumeClaim) { p.queue.Add(c.Namespace + "/" + c.Name) }))
	pods.Informer().AddEventHandler(handler(func(pod *corev1.Pod) {
		for _, v := range pod.Spec.Volumes {
			if v.PersistentVolumeClaim != nil {
				p.queue.Add(pod.Namespace + "/" + v.PersistentVolumeClaim.ClaimName)
			}
		}
	}))
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	var busy sync.WaitGroup
	defer busy.Wait()
	defer p.queue.ShutDown()
	if !cache.WaitForCacheSync(ctx.Done(), claims.Informer().HasSynced, pods.Informer().HasSynced) {
		return
	}
	for range workers {
		busy.Go(func() { p.work(ctx) })
	}
	<-ctx.Done()
}

func handler[T any](enqueue func(T)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { enqueue(obj.(T)) },
		UpdateFunc: func(_, obj any) { enqueue(obj.(T)) },
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			enqueue(obj.(T))
		},
	}
}

func (p *protector) work(ctx context.Context) {
	for {
		key, shutdown := p.queue.Get()
		if shutdown {
			return
		}
		if err := p.sync(ctx, key); err != nil && !p.drops {
			p.queue.AddRateLimited(key)
		} else {
			p.queue.Forget(key)
		}
		p.queue.Done(key)
	}
}

func (p *protector) sync(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	claim, err := p.claims.PersistentVolumeClaims(namespace).Get(name)
	if err != nil || claim.DeletionTimestamp == nil || !slices.Contains(claim.Finalizers, inUse) {
		return nil
	}
	pods, err := p.pods.Pods(namespace).List(labels.Everything())
	if err != nil || anyUses(pods, name) {
		return err
	}
	if p.live {
		list, err := p.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if uses(&list.Items[i], name) {
				return nil
			}
		}
	}
	claim = claim.DeepCopy()
	claim.Finalizers = slices.DeleteFunc(claim.Finalizers, func(f string) bool { return f == inUse })
	_, err = p.client.CoreV1().PersistentVolumeClaims(namespace).Update(ctx, claim, metav1.UpdateOptions{})
	return err
}

func anyUses(pods []*corev1.Pod, claim string) bool {
	return slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return uses(p, claim) })
}

func uses(pod *corev1.Pod, claim string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim
	})
}
