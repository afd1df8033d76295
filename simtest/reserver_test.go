package simtest_test

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

// reserver is a user's controller: it reserves a free volume for each claim without one.
var reserver = cluster.Component{Name: "reserver", Start: func(p cluster.ComponentContext) error {
	claims := p.Informers.Core().V1().PersistentVolumeClaims()
	r := &reserving{client: p.Client, claims: claims.Lister(), volumes: p.Informers.Core().V1().PersistentVolumes().Lister()}
	queue := sim.NewQueue[string](p.Process, sim.QueueConfig{Name: "reserver"})
	_, err := claims.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { queue.Add(obj.(*corev1.PersistentVolumeClaim).Name) },
	})
	queue.Work(r.sync)
	return err
}}

type reserving struct {
	client  kubernetes.Interface
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
}

func (r *reserving) sync(ctx context.Context, name string) error {
	claim, err := r.claims.PersistentVolumeClaims(metav1.NamespaceDefault).Get(name)
	if err != nil || claim.Spec.VolumeName != "" {
		return nil // it is gone, or has one
	}
	volumes, err := r.volumes.List(labels.Everything())
	if err != nil {
		return err
	}
	var free *corev1.PersistentVolume
	for _, v := range volumes {
		ref := v.Spec.ClaimRef
		switch {
		case ref != nil && ref.UID == claim.UID:
			return nil
		case suits(v, claim) && (free == nil || v.Name < free.Name):
			free = v
		}
	}
	if free == nil {
		return nil
	}
	free = free.DeepCopy()
	free.Spec.ClaimRef = &corev1.ObjectReference{
		Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
	}
	_, err = r.client.CoreV1().PersistentVolumes().Update(ctx, free, metav1.UpdateOptions{})
	return err
}

// suits reports whether a volume can be reserved for a claim.
func suits(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	size := v.Spec.Capacity[corev1.ResourceStorage]
	return v.Spec.ClaimRef == nil && v.Status.Phase == corev1.VolumeAvailable && v.DeletionTimestamp == nil &&
		v.Spec.StorageClassName == *claim.Spec.StorageClassName &&
		size.Cmp(claim.Spec.Resources.Requests[corev1.ResourceStorage]) >= 0 &&
		slices.Contains(v.Spec.AccessModes, claim.Spec.AccessModes[0])
}

// careless breaks it: it writes a volume without checking for later changes.
var careless = cluster.Interceptors{Client: func(component string, client *fake.Clientset) *fake.Clientset {
	if component != reserver.Name {
		return client
	}
	return client.WithInterceptor(fake.InterceptorFunc(func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if v, is := r.Body.(*corev1.PersistentVolume); is && r.Verb == "update" && r.Subresource == "" {
			v.ResourceVersion = ""
		}
		return serve()
	}))
}}
