package replicaset

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"

	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/internal/workload"
)

var replicationKind = corev1.SchemeGroupVersion.WithKind("ReplicationController")

// replicationControllers returns the store of ReplicationControllers.
//
// Upstream: pkg/controller/replication informerAdapter, clientsetAdapter (v1.36).
func replicationControllers(cfg Config) store {
	cached, client := cfg.Informers.Core().V1().ReplicationControllers().Informer(), cfg.Client.CoreV1()
	return store{
		resource: "replicationcontrollers", cache: cached, owners: replicationOwners(cfg.Informers),
		handle: func(changed, gone func(*appsv1.ReplicaSet)) {
			eventhandler.Add(cached,
				func(_, rc *corev1.ReplicationController) { changed(toSet(rc)) },
				func(rc *corev1.ReplicationController) { gone(toSet(rc)) })
		},
		read: func(ctx context.Context, namespace, name string) (metav1.Object, error) {
			return client.ReplicationControllers(namespace).Get(ctx, name, metav1.GetOptions{})
		},
		updateStatus: func(ctx context.Context, set *appsv1.ReplicaSet) (metav1.Object, error) {
			return client.ReplicationControllers(set.Namespace).UpdateStatus(ctx, fromSet(set), metav1.UpdateOptions{})
		},
	}
}

func replicationOwners(seen informers.SharedInformerFactory) workload.Owners[*appsv1.ReplicaSet] {
	cached := seen.Core().V1().ReplicationControllers().Lister()
	return workload.Owners[*appsv1.ReplicaSet]{
		Kind: replicationKind.Kind,
		Get: func(namespace, name string) (*appsv1.ReplicaSet, error) {
			rc, err := cached.ReplicationControllers(namespace).Get(name)
			if err != nil {
				return nil, err
			}
			return toSet(rc), nil
		},
		List: func(namespace string) ([]*appsv1.ReplicaSet, error) {
			all, err := cached.ReplicationControllers(namespace).List(labels.Everything())
			sets := make([]*appsv1.ReplicaSet, len(all))
			for i, rc := range all {
				sets[i] = toSet(rc)
			}
			return sets, err
		},
		Selector: func(set *appsv1.ReplicaSet) *metav1.LabelSelector { return set.Spec.Selector },
	}
}

// toSet returns a ReplicationController as a set, whose kind remains ReplicationController. They share
// memory.
//
// Upstream: pkg/controller/replication convertRCtoRS (v1.36).
func toSet(rc *corev1.ReplicationController) *appsv1.ReplicaSet {
	set := &appsv1.ReplicaSet{
		ObjectMeta: rc.ObjectMeta,
		Spec:       appsv1.ReplicaSetSpec{Replicas: rc.Spec.Replicas, MinReadySeconds: rc.Spec.MinReadySeconds},
		Status: appsv1.ReplicaSetStatus{
			Replicas: rc.Status.Replicas, FullyLabeledReplicas: rc.Status.FullyLabeledReplicas,
			ReadyReplicas: rc.Status.ReadyReplicas, AvailableReplicas: rc.Status.AvailableReplicas,
			ObservedGeneration: rc.Status.ObservedGeneration,
		},
	}
	set.APIVersion, set.Kind = replicationKind.ToAPIVersionAndKind()
	if rc.Spec.Selector != nil {
		set.Spec.Selector = &metav1.LabelSelector{MatchLabels: rc.Spec.Selector}
	}
	if rc.Spec.Template != nil {
		set.Spec.Template = *rc.Spec.Template
	}
	for _, c := range rc.Status.Conditions {
		set.Status.Conditions = append(set.Status.Conditions, appsv1.ReplicaSetCondition{
			Type: appsv1.ReplicaSetConditionType(c.Type), Status: c.Status, LastTransitionTime: c.LastTransitionTime,
			Reason: c.Reason, Message: c.Message,
		})
	}
	return set
}

// fromSet returns the ReplicationController of a set. They share memory.
//
// Upstream: pkg/controller/replication convertRStoRC (v1.36).
func fromSet(set *appsv1.ReplicaSet) *corev1.ReplicationController {
	rc := &corev1.ReplicationController{
		ObjectMeta: set.ObjectMeta,
		Spec: corev1.ReplicationControllerSpec{
			Replicas: set.Spec.Replicas, MinReadySeconds: set.Spec.MinReadySeconds, Template: &set.Spec.Template,
		},
		Status: corev1.ReplicationControllerStatus{
			Replicas: set.Status.Replicas, FullyLabeledReplicas: set.Status.FullyLabeledReplicas,
			ReadyReplicas: set.Status.ReadyReplicas, AvailableReplicas: set.Status.AvailableReplicas,
			ObservedGeneration: set.Status.ObservedGeneration,
		},
	}
	if set.Spec.Selector != nil {
		rc.Spec.Selector = set.Spec.Selector.MatchLabels
	}
	for _, c := range set.Status.Conditions {
		rc.Status.Conditions = append(rc.Status.Conditions, corev1.ReplicationControllerCondition{
			Type: corev1.ReplicationControllerConditionType(c.Type), Status: c.Status, LastTransitionTime: c.LastTransitionTime,
			Reason: c.Reason, Message: c.Message,
		})
	}
	return rc
}
