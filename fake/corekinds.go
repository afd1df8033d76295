package fake

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/fake/internal/rules"
)

// coreKinds are the resources of the core group.
//
// Upstream: pkg/registry/core, the strategies; pkg/apis/core/v1/conversion.go, the fields.
var coreKinds = []*kind{
	newKind(strategy[*corev1.Namespace]{
		resource: "namespaces", gvk: corev1.SchemeGroupVersion.WithKind("Namespace"),
		rules:                    rules.Namespace,
		short:                    []string{"ns"},
		copyStatus:               func(to, from *corev1.Namespace) { to.Status = from.Status },
		statusUpdatesMetadata:    true,
		allowUnconditionalUpdate: true,
		fields: map[string]func(*corev1.Namespace) string{
			"status.phase": func(n *corev1.Namespace) string { return string(n.Status.Phase) },
		},
		fieldError: unsupportedField,
	}, func(m metav1.ListMeta, items []corev1.Namespace) runtime.Object {
		return &corev1.NamespaceList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*corev1.Node]{
		resource: "nodes", gvk: corev1.SchemeGroupVersion.WithKind("Node"),
		rules:                    rules.Node,
		short:                    []string{"no"},
		copyStatus:               func(to, from *corev1.Node) { to.Status = from.Status },
		statusUpdatesMetadata:    true,
		allowUnconditionalUpdate: true,
		fields: map[string]func(*corev1.Node) string{
			"spec.unschedulable": func(n *corev1.Node) string { return strconv.FormatBool(n.Spec.Unschedulable) },
		},
		fieldError:          unsupportedField,
		deleteReturnsStatus: true,
	}, func(m metav1.ListMeta, items []corev1.Node) runtime.Object {
		return &corev1.NodeList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*corev1.Pod]{
		resource: "pods", gvk: corev1.SchemeGroupVersion.WithKind("Pod"), namespaced: true,
		rules: rules.Pod,
		short: []string{"po"}, categories: []string{"all"},
		copyStatus:               func(to, from *corev1.Pod) { to.Status = from.Status },
		statusUpdatesMetadata:    true,
		allowUnconditionalUpdate: true,
		grace:                    podGrace,
		fields:                   podFields,
		fieldError:               unsupportedField,
		actions:                  podActions,
	}, func(m metav1.ListMeta, items []corev1.Pod) runtime.Object {
		return &corev1.PodList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*corev1.PersistentVolume]{
		resource: "persistentvolumes", gvk: corev1.SchemeGroupVersion.WithKind("PersistentVolume"),
		rules:                    rules.PersistentVolume,
		short:                    []string{"pv"},
		copyStatus:               func(to, from *corev1.PersistentVolume) { to.Status = from.Status },
		statusUpdatesMetadata:    true,
		allowUnconditionalUpdate: true,
	}, func(m metav1.ListMeta, items []corev1.PersistentVolume) runtime.Object {
		return &corev1.PersistentVolumeList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*corev1.PersistentVolumeClaim]{
		resource: "persistentvolumeclaims",
		gvk:      corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), namespaced: true,
		rules:                    rules.PersistentVolumeClaim,
		short:                    []string{"pvc"},
		copyStatus:               func(to, from *corev1.PersistentVolumeClaim) { to.Status = from.Status },
		statusUpdatesMetadata:    true,
		allowUnconditionalUpdate: true,
	}, func(m metav1.ListMeta, items []corev1.PersistentVolumeClaim) runtime.Object {
		return &corev1.PersistentVolumeClaimList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*corev1.Event]{
		resource: "events", gvk: corev1.SchemeGroupVersion.WithKind("Event"), namespaced: true,
		rules:                    rules.Event,
		short:                    []string{"ev"},
		allowUnconditionalUpdate: true,
		allowCreateOnUpdate:      true,
		dependents:               dependentsNone,
		fields:                   eventFields,
		fieldError:               unsupportedField,
		deleteReturnsStatus:      true,
	}, func(m metav1.ListMeta, items []corev1.Event) runtime.Object {
		return &corev1.EventList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*corev1.Secret]{
		resource: "secrets", gvk: corev1.SchemeGroupVersion.WithKind("Secret"), namespaced: true,
		rules:                    rules.Secret,
		allowUnconditionalUpdate: true,
		deleteReturnsStatus:      true,
		fields: map[string]func(*corev1.Secret) string{
			"type": func(s *corev1.Secret) string { return string(s.Type) },
		},
		fieldError: unsupportedField,
	}, func(m metav1.ListMeta, items []corev1.Secret) runtime.Object {
		return &corev1.SecretList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*corev1.ConfigMap]{
		resource: "configmaps", gvk: corev1.SchemeGroupVersion.WithKind("ConfigMap"), namespaced: true,
		rules:                    rules.ConfigMap,
		short:                    []string{"cm"},
		allowUnconditionalUpdate: true,
		deleteReturnsStatus:      true,
	}, func(m metav1.ListMeta, items []corev1.ConfigMap) runtime.Object {
		return &corev1.ConfigMapList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*corev1.ServiceAccount]{
		resource: "serviceaccounts", gvk: corev1.SchemeGroupVersion.WithKind("ServiceAccount"), namespaced: true,
		short:                    []string{"sa"},
		allowUnconditionalUpdate: true,
		actions:                  accountActions,
	}, func(m metav1.ListMeta, items []corev1.ServiceAccount) runtime.Object {
		return &corev1.ServiceAccountList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*corev1.ResourceQuota]{
		resource: "resourcequotas", gvk: corev1.SchemeGroupVersion.WithKind("ResourceQuota"), namespaced: true,
		rules:                    rules.ResourceQuota,
		short:                    []string{"quota"},
		copyStatus:               func(to, from *corev1.ResourceQuota) { to.Status = from.Status },
		statusUpdatesMetadata:    true,
		allowUnconditionalUpdate: true,
	}, func(m metav1.ListMeta, items []corev1.ResourceQuota) runtime.Object {
		return &corev1.ResourceQuotaList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*corev1.LimitRange]{
		resource: "limitranges", gvk: corev1.SchemeGroupVersion.WithKind("LimitRange"), namespaced: true,
		rules:                    rules.LimitRange,
		short:                    []string{"limits"},
		allowUnconditionalUpdate: true,
		deleteReturnsStatus:      true,
		allowCreateOnUpdate:      true,
	}, func(m metav1.ListMeta, items []corev1.LimitRange) runtime.Object {
		return &corev1.LimitRangeList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*corev1.Service]{
		resource: "services", gvk: corev1.SchemeGroupVersion.WithKind("Service"), namespaced: true,
		rules:                    rules.Service,
		short:                    []string{"svc"},
		categories:               []string{"all"},
		copyStatus:               func(to, from *corev1.Service) { to.Status = from.Status },
		statusUpdatesMetadata:    true,
		allowUnconditionalUpdate: true,
		fields: map[string]func(*corev1.Service) string{
			"spec.clusterIP": func(s *corev1.Service) string { return s.Spec.ClusterIP },
			"spec.type":      func(s *corev1.Service) string { return string(s.Spec.Type) },
		},
		fieldError:          unsupportedField,
		allowCreateOnUpdate: true,
	}, func(m metav1.ListMeta, items []corev1.Service) runtime.Object {
		return &corev1.ServiceList{ListMeta: m, Items: items}
	}),

	//lint:ignore SA1019 it is served
	newKind(strategy[*corev1.Endpoints]{
		resource: "endpoints", gvk: corev1.SchemeGroupVersion.WithKind("Endpoints"), namespaced: true,
		rules:                    rules.Endpoints,
		short:                    []string{"ep"},
		allowUnconditionalUpdate: true,
		deleteReturnsStatus:      true,
		allowCreateOnUpdate:      true,
		//lint:ignore SA1019 it is served
	}, func(m metav1.ListMeta, items []corev1.Endpoints) runtime.Object {
		return &corev1.EndpointsList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*corev1.ReplicationController]{
		resource: "replicationcontrollers",
		gvk:      corev1.SchemeGroupVersion.WithKind("ReplicationController"), namespaced: true,
		rules:                    rules.ReplicationController,
		short:                    []string{"rc"},
		categories:               []string{"all"},
		copyStatus:               func(to, from *corev1.ReplicationController) { to.Status = from.Status },
		statusUpdatesMetadata:    true,
		allowUnconditionalUpdate: true,
		fields: map[string]func(*corev1.ReplicationController) string{
			"status.replicas": func(r *corev1.ReplicationController) string {
				return strconv.Itoa(int(r.Status.Replicas))
			},
		},
		fieldError: unsupportedField,
		dependents: dependentsOrphaned,
	}, func(m metav1.ListMeta, items []corev1.ReplicationController) runtime.Object {
		return &corev1.ReplicationControllerList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*corev1.PodTemplate]{
		resource: "podtemplates", gvk: corev1.SchemeGroupVersion.WithKind("PodTemplate"), namespaced: true,
		rules:                    rules.PodTemplate,
		allowUnconditionalUpdate: true,
	}, func(m metav1.ListMeta, items []corev1.PodTemplate) runtime.Object {
		return &corev1.PodTemplateList{ListMeta: m, Items: items}
	}),
}

var podFields = map[string]func(*corev1.Pod) string{
	"spec.nodeName":            func(p *corev1.Pod) string { return p.Spec.NodeName },
	"spec.host":                func(p *corev1.Pod) string { return p.Spec.NodeName },
	"spec.restartPolicy":       func(p *corev1.Pod) string { return string(p.Spec.RestartPolicy) },
	"spec.schedulerName":       func(p *corev1.Pod) string { return p.Spec.SchedulerName },
	"spec.serviceAccountName":  func(p *corev1.Pod) string { return p.Spec.ServiceAccountName },
	"spec.hostNetwork":         func(p *corev1.Pod) string { return strconv.FormatBool(p.Spec.HostNetwork) },
	"status.phase":             func(p *corev1.Pod) string { return string(p.Status.Phase) },
	"status.podIP":             func(p *corev1.Pod) string { return p.Status.PodIP },
	"status.nominatedNodeName": func(p *corev1.Pod) string { return p.Status.NominatedNodeName },
}

var eventFields = map[string]func(*corev1.Event) string{
	"involvedObject.kind":            func(e *corev1.Event) string { return e.InvolvedObject.Kind },
	"involvedObject.namespace":       func(e *corev1.Event) string { return e.InvolvedObject.Namespace },
	"involvedObject.name":            func(e *corev1.Event) string { return e.InvolvedObject.Name },
	"involvedObject.uid":             func(e *corev1.Event) string { return string(e.InvolvedObject.UID) },
	"involvedObject.apiVersion":      func(e *corev1.Event) string { return e.InvolvedObject.APIVersion },
	"involvedObject.resourceVersion": func(e *corev1.Event) string { return e.InvolvedObject.ResourceVersion },
	"involvedObject.fieldPath":       func(e *corev1.Event) string { return e.InvolvedObject.FieldPath },
	"reason":                         func(e *corev1.Event) string { return e.Reason },
	"reportingComponent":             func(e *corev1.Event) string { return e.ReportingController },
	"source":                         eventSource,
	"type":                           func(e *corev1.Event) string { return e.Type },
}

func eventSource(e *corev1.Event) string {
	if e.Source.Component != "" {
		return e.Source.Component
	}
	return e.ReportingController
}
