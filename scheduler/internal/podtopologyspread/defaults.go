package podtopologyspread

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// systemDefaults are the constraints of the type System. They must not be changed.
var systemDefaults = []corev1.TopologySpreadConstraint{
	{TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, MaxSkew: 3},
	{TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway, MaxSkew: 5},
}

// owners are the objects whose selectors the default constraints use.
type owners struct {
	services     cache.Indexer
	controllers  corelisters.ReplicationControllerLister
	replicaSets  appslisters.ReplicaSetLister
	statefulSets appslisters.StatefulSetLister
}

func newOwners(from informers.SharedInformerFactory) *owners {
	core, apps := from.Core().V1(), from.Apps().V1()
	return &owners{
		services: core.Services().Informer().GetIndexer(), controllers: core.ReplicationControllers().Lister(),
		replicaSets: apps.ReplicaSets().Lister(), statefulSets: apps.StatefulSets().Lister(),
	}
}

// selector returns the selector of a pod's services and of its controller together. It is empty if there are
// none.
//
// Upstream: pkg/scheduler/framework/plugins/helper DefaultSelector (v1.36).
func (o *owners) selector(pod *corev1.Pod) labels.Selector {
	owner := metav1.GetControllerOfNoCopy(pod)
	if len(pod.Labels) == 0 && owner == nil {
		return labels.Everything()
	}
	selected := o.ofServices(pod)
	switch {
	case owner == nil && len(selected) == 0:
		return labels.Everything()
	case owner == nil:
		return selected.AsSelector()
	}
	version, _ := schema.ParseGroupVersion(owner.APIVersion)
	switch version.WithKind(owner.Kind) {
	case corev1.SchemeGroupVersion.WithKind("ReplicationController"):
		if c, err := o.controllers.ReplicationControllers(pod.Namespace).Get(owner.Name); err == nil {
			selected = labels.Merge(selected, c.Spec.Selector)
		}
	case appsv1.SchemeGroupVersion.WithKind("ReplicaSet"):
		if set, err := o.replicaSets.ReplicaSets(pod.Namespace).Get(owner.Name); err == nil {
			return and(selected.AsSelector(), set.Spec.Selector)
		}
	case appsv1.SchemeGroupVersion.WithKind("StatefulSet"):
		if set, err := o.statefulSets.StatefulSets(pod.Namespace).Get(owner.Name); err == nil {
			return and(selected.AsSelector(), set.Spec.Selector)
		}
	}
	return selected.AsSelector()
}

func (o *owners) ofServices(pod *corev1.Pod) labels.Set {
	var selected labels.Set
	services, _ := o.services.ByIndex(cache.NamespaceIndex, pod.Namespace) // it exists
	for _, obj := range services {
		service := obj.(*corev1.Service)
		if service.Spec.Selector != nil && labels.Set(service.Spec.Selector).AsSelectorPreValidated().Matches(labels.Set(pod.Labels)) {
			selected = labels.Merge(selected, service.Spec.Selector)
		}
	}
	return selected
}

func and(selector labels.Selector, other *metav1.LabelSelector) labels.Selector {
	parsed, err := metav1.LabelSelectorAsSelector(other)
	if err != nil {
		return selector
	}
	requirements, _ := parsed.Requirements()
	return selector.Add(requirements...)
}
