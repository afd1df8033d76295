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

// deceived intercepts a client: answer sees each request first and reports whether it has answered it.
func deceived(answer func(r fake.Request) (obj runtime.Object, err error, dealt bool)) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if obj, err, dealt := answer(r); dealt {
			return obj, err
		}
		return serve()
	}
}

// careless makes a component update volumes without a resourceVersion.
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

// trusting answers every list of pods by a component with an empty list.
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

// absentMinded drops the status updates of volumes by a component and reports success.
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

// stubborn is a component that always resets the reclaim policy of every volume.
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

// fragile makes a component panic on a failed request.
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
