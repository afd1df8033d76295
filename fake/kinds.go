package fake

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// kinds is all that differs between the resources.
//
// Upstream: pkg/registry/core and pkg/registry/storage, the strategies; pkg/apis/core/v1/conversion.go, the fields.
var kinds = []*kind{
	newKind(rule[*corev1.Namespace]{
		resource: "namespaces", gvk: corev1.SchemeGroupVersion.WithKind("Namespace"),
		name:          validation.ValidateNamespaceName,
		defaults:      defaultNamespace,
		copyStatus:    func(to, from *corev1.Namespace) { to.Status = from.Status },
		statusMeta:    true,
		prepareCreate: prepareNamespaceCreate,
		prepareUpdate: prepareNamespaceUpdate,
		unconditional: true,
		fields: map[string]func(*corev1.Namespace) string{
			"status.phase": func(n *corev1.Namespace) string { return string(n.Status.Phase) },
		},
		strange: unsupportedField,
	}, func(m metav1.ListMeta, items []corev1.Namespace) runtime.Object {
		return &corev1.NamespaceList{ListMeta: m, Items: items}
	}),

	newKind(rule[*corev1.Node]{
		resource: "nodes", gvk: corev1.SchemeGroupVersion.WithKind("Node"),
		name:          validation.NameIsDNSSubdomain,
		defaults:      defaultNode,
		copyStatus:    func(to, from *corev1.Node) { to.Status = from.Status },
		statusMeta:    true,
		unconditional: true,
		fields: map[string]func(*corev1.Node) string{
			"spec.unschedulable": func(n *corev1.Node) string { return strconv.FormatBool(n.Spec.Unschedulable) },
		},
		strange: unsupportedField,
	}, func(m metav1.ListMeta, items []corev1.Node) runtime.Object {
		return &corev1.NodeList{ListMeta: m, Items: items}
	}),

	newKind(rule[*corev1.Pod]{
		resource: "pods", gvk: corev1.SchemeGroupVersion.WithKind("Pod"), namespaced: true,
		name:           validation.NameIsDNSSubdomain,
		defaults:       defaultPod,
		copyStatus:     func(to, from *corev1.Pod) { to.Status = from.Status },
		statusMeta:     true,
		prepareCreate:  preparePodCreate,
		prepareUpdate:  preparePodUpdate,
		prepareStatus:  preparePodStatus,
		validateCreate: validatePod,
		validateUpdate: validatePodUpdate,
		unconditional:  true,
		grace:          podGrace,
		fields:         podFields,
		strange:        unsupportedField,
	}, func(m metav1.ListMeta, items []corev1.Pod) runtime.Object {
		return &corev1.PodList{ListMeta: m, Items: items}
	}),

	newKind(rule[*corev1.PersistentVolume]{
		resource: "persistentvolumes", gvk: corev1.SchemeGroupVersion.WithKind("PersistentVolume"),
		name:           validation.NameIsDNSSubdomain,
		defaults:       defaultVolume,
		copyStatus:     func(to, from *corev1.PersistentVolume) { to.Status = from.Status },
		statusMeta:     true,
		prepareCreate:  prepareVolumeCreate,
		prepareStatus:  prepareVolumeStatus,
		validateCreate: validateVolume,
		validateUpdate: validateVolumeUpdate,
		unconditional:  true,
	}, func(m metav1.ListMeta, items []corev1.PersistentVolume) runtime.Object {
		return &corev1.PersistentVolumeList{ListMeta: m, Items: items}
	}),

	newKind(rule[*corev1.PersistentVolumeClaim]{
		resource: "persistentvolumeclaims", gvk: corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), namespaced: true,
		name:           validation.NameIsDNSSubdomain,
		defaults:       defaultClaim,
		copyStatus:     func(to, from *corev1.PersistentVolumeClaim) { to.Status = from.Status },
		statusMeta:     true,
		prepareCreate:  prepareClaimCreate,
		prepareUpdate:  prepareClaimUpdate,
		validateCreate: validateClaim,
		validateUpdate: validateClaimUpdate,
		validateStatus: validateClaimStatus,
		unconditional:  true,
	}, func(m metav1.ListMeta, items []corev1.PersistentVolumeClaim) runtime.Object {
		return &corev1.PersistentVolumeClaimList{ListMeta: m, Items: items}
	}),

	newKind(rule[*corev1.Event]{
		resource: "events", gvk: corev1.SchemeGroupVersion.WithKind("Event"), namespaced: true,
		name:           validation.NameIsDNSSubdomain,
		defaults:       defaultEvent,
		validateCreate: validateEvent,
		validateUpdate: validateEvent,
		unconditional:  true,
		createOnUpdate: true,
		fields:         eventFields,
		strange:        unsupportedField,
	}, func(m metav1.ListMeta, items []corev1.Event) runtime.Object {
		return &corev1.EventList{ListMeta: m, Items: items}
	}),

	newKind(rule[*storagev1.StorageClass]{
		resource: "storageclasses", gvk: storagev1.SchemeGroupVersion.WithKind("StorageClass"),
		name:           validation.NameIsDNSSubdomain,
		defaults:       defaultClass,
		validateCreate: validateClass,
		validateUpdate: validateClassUpdate,
		unconditional:  true,
	}, func(m metav1.ListMeta, items []storagev1.StorageClass) runtime.Object {
		return &storagev1.StorageClassList{ListMeta: m, Items: items}
	}),

	newKind(rule[*storagev1.VolumeAttachment]{
		resource: "volumeattachments", gvk: storagev1.SchemeGroupVersion.WithKind("VolumeAttachment"),
		name:           validation.NameIsDNSSubdomain,
		defaults:       defaultAttachment,
		copyStatus:     func(to, from *storagev1.VolumeAttachment) { to.Status = from.Status },
		prepareCreate:  prepareAttachmentCreate,
		validateCreate: validateAttachment,
		validateUpdate: validateAttachmentUpdate,
		validateStatus: validateAttachmentUpdate,
	}, func(m metav1.ListMeta, items []storagev1.VolumeAttachment) runtime.Object {
		return &storagev1.VolumeAttachmentList{ListMeta: m, Items: items}
	}),

	newKind(rule[*storagev1.CSIDriver]{
		resource: "csidrivers", gvk: storagev1.SchemeGroupVersion.WithKind("CSIDriver"),
		name:           validation.NameIsDNSSubdomain,
		defaults:       defaultDriver,
		prepareCreate:  prepareDriverCreate,
		prepareUpdate:  prepareDriverUpdate,
		validateCreate: validateDriver,
		validateUpdate: validateDriverUpdate,
	}, func(m metav1.ListMeta, items []storagev1.CSIDriver) runtime.Object {
		return &storagev1.CSIDriverList{ListMeta: m, Items: items}
	}),

	newKind(rule[*storagev1.CSINode]{
		resource: "csinodes", gvk: storagev1.SchemeGroupVersion.WithKind("CSINode"),
		name:           validation.NameIsDNSSubdomain,
		validateCreate: validateCSINode,
		validateUpdate: validateCSINodeUpdate,
	}, func(m metav1.ListMeta, items []storagev1.CSINode) runtime.Object {
		return &storagev1.CSINodeList{ListMeta: m, Items: items}
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
