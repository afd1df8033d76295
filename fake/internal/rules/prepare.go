package rules

import (
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This file sets what the server decides in an object, whatever the writer sent. The pipeline has
// restored the status of an update, and all but the status of a write of /status, before.
//
// Upstream: the strategies' PrepareForCreate and PrepareForUpdate.

func prepareNamespaceCreate(_ metav1.Time, ns, _ *corev1.Namespace) {
	ns.Status = corev1.NamespaceStatus{Phase: corev1.NamespaceActive}
	if !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes) {
		ns.Spec.Finalizers = append(ns.Spec.Finalizers, corev1.FinalizerKubernetes)
	}
}

func prepareNamespaceUpdate(_ metav1.Time, ns, old *corev1.Namespace) {
	ns.Spec.Finalizers = old.Spec.Finalizers
}

func preparePodCreate(now metav1.Time, pod, _ *corev1.Pod) {
	pod.Generation = 1
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: qualityOf(pod)}
	if len(pod.Spec.SchedulingGates) > 0 {
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated,
			Message: "Scheduling is blocked due to non-empty scheduling gates", LastTransitionTime: now,
		}}
	}
}

// qualityOf returns the pod's quality-of-service class.
//
// Differs: pod-level resources are ignored, and a Guaranteed pod is reported as Burstable.
func qualityOf(pod *corev1.Pod) corev1.PodQOSClass {
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if len(c.Resources.Requests) > 0 || len(c.Resources.Limits) > 0 {
			return corev1.PodQOSBurstable
		}
	}
	return corev1.PodQOSBestEffort
}

// preparePodUpdate also restores what the admission plugins set at creation, if the update omits
// it.
func preparePodUpdate(_ metav1.Time, pod, old *corev1.Pod) {
	spec, oldSpec := &pod.Spec, &old.Spec
	setIfEmpty(&spec.ServiceAccountName, oldSpec.ServiceAccountName)
	spec.DeprecatedServiceAccount = spec.ServiceAccountName
	if spec.Priority == nil {
		spec.Priority = oldSpec.Priority
	}
	if spec.PreemptionPolicy == nil {
		spec.PreemptionPolicy = oldSpec.PreemptionPolicy
	}
	AddDefaultTolerations(spec)
	if !samePodSpec(&pod.Spec, &old.Spec) {
		pod.Generation = old.Generation + 1
	}
}

func preparePodStatus(_ metav1.Time, pod, old *corev1.Pod) {
	pod.OwnerReferences, pod.DeletionTimestamp = old.OwnerReferences, old.DeletionTimestamp
	if pod.Status.QOSClass == "" {
		pod.Status.QOSClass = old.Status.QOSClass
	}
}

func prepareVolumeCreate(now metav1.Time, volume, _ *corev1.PersistentVolume) {
	volume.Status = corev1.PersistentVolumeStatus{Phase: corev1.VolumePending, LastPhaseTransitionTime: &now}
}

func prepareVolumeStatus(now metav1.Time, volume, old *corev1.PersistentVolume) {
	status, oldStatus := &volume.Status, &old.Status
	switch {
	case status.Phase == oldStatus.Phase:
		if status.LastPhaseTransitionTime == nil {
			status.LastPhaseTransitionTime = oldStatus.LastPhaseTransitionTime
		}
	case status.LastPhaseTransitionTime == nil ||
		status.LastPhaseTransitionTime.Equal(oldStatus.LastPhaseTransitionTime):
		status.LastPhaseTransitionTime = &now
	}
}

func prepareClaimCreate(_ metav1.Time, claim, _ *corev1.PersistentVolumeClaim) {
	claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}
	dropDataSource(&claim.Spec)
	copyDataSource(&claim.Spec)
}

// DropCrossNamespaceSource drops the source of a new claim if it is in another namespace, as a server
// does without the feature gate CrossNamespaceVolumeDataSource.
//
// Upstream: pkg/api/persistentvolumeclaim DropDisabledFields.
func DropCrossNamespaceSource(claim *corev1.PersistentVolumeClaim) {
	if hasNamespace(claim.Spec.DataSourceRef) {
		claim.Spec.DataSourceRef = nil
		dropDataSource(&claim.Spec)
		copyDataSource(&claim.Spec)
	}
}

func hasNamespace(ref *corev1.TypedObjectReference) bool {
	return ref != nil && ref.Namespace != nil && *ref.Namespace != ""
}

func prepareClaimUpdate(_ metav1.Time, claim, old *corev1.PersistentVolumeClaim) {
	if old.Spec.DataSource == nil && old.Spec.DataSourceRef == nil {
		dropDataSource(&claim.Spec)
	}
	copyDataSource(&claim.Spec)
}

// dropDataSource drops a dataSource that is neither a claim nor a snapshot, unless dataSourceRef is
// set.
//
// Upstream: pkg/api/persistentvolumeclaim EnforceDataSourceBackwardsCompatibility.
func dropDataSource(spec *corev1.PersistentVolumeClaimSpec) {
	source := spec.DataSource
	if source == nil || spec.DataSourceRef != nil {
		return
	}
	group := ""
	if source.APIGroup != nil {
		group = *source.APIGroup
	}
	claim := group == "" && source.Kind == "PersistentVolumeClaim"
	snapshot := group == "snapshot.storage.k8s.io" && source.Kind == "VolumeSnapshot"
	if !claim && !snapshot {
		spec.DataSource = nil
	}
}

// copyDataSource sets dataSource or dataSourceRef from the other one, unless that has a namespace.
//
// Upstream: pkg/api/persistentvolumeclaim NormalizeDataSources.
func copyDataSource(spec *corev1.PersistentVolumeClaimSpec) {
	source, ref := spec.DataSource, spec.DataSourceRef
	switch {
	case source != nil && ref == nil:
		spec.DataSourceRef = &corev1.TypedObjectReference{
			APIGroup: source.APIGroup, Kind: source.Kind,
			Name: source.Name,
		}
	case source == nil && ref != nil && !hasNamespace(ref):
		spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: ref.APIGroup, Kind: ref.Kind, Name: ref.Name}
	}
}

func prepareAttachmentCreate(_ metav1.Time, attachment, _ *storagev1.VolumeAttachment) {
	attachment.Status = storagev1.VolumeAttachmentStatus{}
}

// prepareDriverCreate drops the field of the feature gate VolumeLimitScaling, which is off in 1.36.
func prepareDriverCreate(_ metav1.Time, driver, _ *storagev1.CSIDriver) {
	drop(&driver.Spec, "PreventPodSchedulingIfMissing")
}

// drop clears a field that not all supported versions of the Kubernetes libraries have.
func drop(spec any, name string) {
	if f := reflect.ValueOf(spec).Elem().FieldByName(name); f.IsValid() {
		f.SetZero()
	}
}

// prepareDriverUpdate increments the generation. A created driver keeps the generation that was
// sent, usually 0.
func prepareDriverUpdate(_ metav1.Time, driver, old *storagev1.CSIDriver) {
	drop(&driver.Spec, "PreventPodSchedulingIfMissing")
	if !equality.Semantic.DeepEqual(driver.Spec, old.Spec) {
		driver.Generation = old.Generation + 1
	}
}
