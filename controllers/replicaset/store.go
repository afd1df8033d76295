package replicaset

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/internal/workload"
)

// A store has the sets of one kind: those of the informers' cache, and the requests about them.
type store struct {
	resource string // with its group
	cache    cache.SharedIndexInformer
	owners   workload.Owners[*appsv1.ReplicaSet] // of pods; reads the cache
	// handle adds handlers to the informer.
	handle func(changed, gone func(*appsv1.ReplicaSet))
	// read reads a set from the server.
	read func(ctx context.Context, namespace, name string) (metav1.Object, error)
	// updateStatus writes the status of a set, and returns the stored set.
	updateStatus func(ctx context.Context, set *appsv1.ReplicaSet) (metav1.Object, error)
}

var setKind = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")

// replicaSets returns the store of ReplicaSets.
func replicaSets(cfg Config) store {
	sets := cfg.Informers.Apps().V1().ReplicaSets().Informer()
	return store{
		resource: "replicasets.apps", cache: sets, owners: replicaSetOwners(cfg.Informers),
		handle: func(changed, gone func(*appsv1.ReplicaSet)) {
			eventhandler.Add(sets, func(_, set *appsv1.ReplicaSet) { changed(set) }, gone)
		},
		read: func(ctx context.Context, namespace, name string) (metav1.Object, error) {
			return cfg.Client.AppsV1().ReplicaSets(namespace).Get(ctx, name, metav1.GetOptions{})
		},
		updateStatus: func(ctx context.Context, set *appsv1.ReplicaSet) (metav1.Object, error) {
			return cfg.Client.AppsV1().ReplicaSets(set.Namespace).UpdateStatus(ctx, set, metav1.UpdateOptions{})
		},
	}
}

func replicaSetOwners(seen informers.SharedInformerFactory) workload.Owners[*appsv1.ReplicaSet] {
	sets := seen.Apps().V1().ReplicaSets().Lister()
	return workload.Owners[*appsv1.ReplicaSet]{
		Kind: setKind.Kind,
		Get: func(namespace, name string) (*appsv1.ReplicaSet, error) {
			return sets.ReplicaSets(namespace).Get(name)
		},
		List: func(namespace string) ([]*appsv1.ReplicaSet, error) {
			return sets.ReplicaSets(namespace).List(labels.Everything())
		},
		Selector: func(set *appsv1.ReplicaSet) *metav1.LabelSelector { return set.Spec.Selector },
	}
}
