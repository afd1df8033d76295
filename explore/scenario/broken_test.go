package scenario_test

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

// deceived has a client be lied to: answer sees each request first, and says whether it has dealt with it.
func deceived(answer func(r fake.Request) (obj runtime.Object, err error, dealt bool)) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if obj, err, dealt := answer(r); dealt {
			return obj, err
		}
		return serve()
	}
}

// careless has a part update volumes without saying which version it has seen.
func careless(process string) cluster.Interceptors {
	return cluster.Interceptors{Client: func(of string, client *fake.Clientset) *fake.Clientset {
		if of != process {
			return client
		}
		return client.WithInterceptor(fake.InterceptorFunc(func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
			if volume, is := r.Body.(*corev1.PersistentVolume); is && r.Verb == "update" {
				volume.ResourceVersion = ""
			}
			return serve()
		}))
	}}
}

// trusting has a part believe that there is no pod whenever it asks the API server.
func trusting(process string) cluster.Interceptors {
	return cluster.Interceptors{Client: func(of string, client *fake.Clientset) *fake.Clientset {
		if of != process {
			return client
		}
		return client.WithInterceptor(deceived(func(r fake.Request) (runtime.Object, error, bool) {
			return &corev1.PodList{}, nil, r.Verb == "list" && r.Resource.Resource == "pods"
		}))
	}}
}

// absentMinded has a part never write the status of volumes, and believe that it has.
func absentMinded(process string) cluster.Interceptors {
	return cluster.Interceptors{Client: func(of string, client *fake.Clientset) *fake.Clientset {
		if of != process {
			return client
		}
		return client.WithInterceptor(deceived(func(r fake.Request) (runtime.Object, error, bool) {
			return r.Body, nil, r.Subresource == "status" && r.Resource.Resource == "persistentvolumes"
		}))
	}}
}

// stubborn is a part that sets the reclaim policy of every volume to its own, whatever others want.
func stubborn(name string, policy corev1.PersistentVolumeReclaimPolicy) cluster.Component {
	return cluster.Component{Name: name, Start: func(p cluster.ComponentContext) error {
		volumes := p.Informers.Core().V1().PersistentVolumes()
		queue := sim.NewQueue[string](p.Process, sim.QueueConfig{Name: name})
		_, err := volumes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { queue.Add(obj.(*corev1.PersistentVolume).Name) },
			UpdateFunc: func(_, obj any) { queue.Add(obj.(*corev1.PersistentVolume).Name) },
		})
		queue.Work(func(ctx context.Context, name string) error {
			volume, err := volumes.Lister().Get(name)
			if err != nil || volume.Spec.PersistentVolumeReclaimPolicy == policy {
				return err
			}
			volume = volume.DeepCopy()
			volume.Spec.PersistentVolumeReclaimPolicy = policy
			_, err = p.Client.CoreV1().PersistentVolumes().Update(ctx, volume, metav1.UpdateOptions{})
			return err
		})
		return err
	}}
}

// fragile has a part panic when it is refused something.
func fragile(process string) cluster.Interceptors {
	return cluster.Interceptors{Client: func(of string, client *fake.Clientset) *fake.Clientset {
		if of != process {
			return client
		}
		return client.WithInterceptor(deceived(func(r fake.Request) (runtime.Object, error, bool) {
			if r.Verb == "update" && r.Resource.Resource == "persistentvolumeclaims" {
				panic("the map is nil")
			}
			return nil, nil, false
		}))
	}}
}
