package fake

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/fake/internal/rules"
)

// appsKinds are the resources of the group apps.
//
// Upstream: pkg/registry/apps, the strategies.
var appsKinds = []*kind{
	newKind(strategy[*appsv1.StatefulSet]{
		resource: "statefulsets", gvk: appsv1.SchemeGroupVersion.WithKind("StatefulSet"), namespaced: true,
		rules:                    rules.StatefulSet,
		short:                    []string{"sts"},
		categories:               []string{"all"},
		copyStatus:               func(to, from *appsv1.StatefulSet) { to.Status = from.Status },
		statusUpdatesMetadata:    true,
		allowUnconditionalUpdate: true,
		deleteReturnsStatus:      true,
	}, func(m metav1.ListMeta, items []appsv1.StatefulSet) runtime.Object {
		return &appsv1.StatefulSetList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*appsv1.Deployment]{
		resource: "deployments", gvk: appsv1.SchemeGroupVersion.WithKind("Deployment"), namespaced: true,
		rules:                    rules.Deployment,
		short:                    []string{"deploy"},
		categories:               []string{"all"},
		copyStatus:               func(to, from *appsv1.Deployment) { to.Status = from.Status },
		statusUpdatesMetadata:    true,
		allowUnconditionalUpdate: true,
		deleteReturnsStatus:      true,
	}, func(m metav1.ListMeta, items []appsv1.Deployment) runtime.Object {
		return &appsv1.DeploymentList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*appsv1.ReplicaSet]{
		resource: "replicasets", gvk: appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), namespaced: true,
		rules:                    rules.ReplicaSet,
		short:                    []string{"rs"},
		categories:               []string{"all"},
		copyStatus:               func(to, from *appsv1.ReplicaSet) { to.Status = from.Status },
		statusUpdatesMetadata:    true,
		allowUnconditionalUpdate: true,
		deleteReturnsStatus:      true,
	}, func(m metav1.ListMeta, items []appsv1.ReplicaSet) runtime.Object {
		return &appsv1.ReplicaSetList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*appsv1.DaemonSet]{
		resource: "daemonsets", gvk: appsv1.SchemeGroupVersion.WithKind("DaemonSet"), namespaced: true,
		rules:                    rules.DaemonSet,
		short:                    []string{"ds"},
		categories:               []string{"all"},
		copyStatus:               func(to, from *appsv1.DaemonSet) { to.Status = from.Status },
		statusUpdatesMetadata:    true,
		allowUnconditionalUpdate: true,
		deleteReturnsStatus:      true,
	}, func(m metav1.ListMeta, items []appsv1.DaemonSet) runtime.Object {
		return &appsv1.DaemonSetList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*appsv1.ControllerRevision]{
		resource: "controllerrevisions",
		gvk:      appsv1.SchemeGroupVersion.WithKind("ControllerRevision"), namespaced: true,
		rules:                    rules.ControllerRevision,
		allowUnconditionalUpdate: true,
		deleteReturnsStatus:      true,
	}, func(m metav1.ListMeta, items []appsv1.ControllerRevision) runtime.Object {
		return &appsv1.ControllerRevisionList{ListMeta: m, Items: items}
	}),
}
