package rules

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What the server writes into an object itself, whatever the writer said. The status of an update, and all but the
// status of a write of /status, have been put back by then.
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

// qualityOf is the pod's quality-of-service class.
//
// Differs: pod-level resources are not looked at, and a pod that is not BestEffort counts as Burstable.
func qualityOf(pod *corev1.Pod) corev1.PodQOSClass {
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if len(c.Resources.Requests) > 0 || len(c.Resources.Limits) > 0 {
			return corev1.PodQOSBurstable
		}
	}
	return corev1.PodQOSBestEffort
}

// preparePodUpdate also does what the plugins do: what they wrote at creation may be left out.
func preparePodUpdate(_ metav1.Time, pod, old *corev1.Pod) {
	spec, was := &pod.Spec, &old.Spec
	fill(&spec.ServiceAccountName, was.ServiceAccountName)
	spec.DeprecatedServiceAccount = spec.ServiceAccountName
	if spec.Priority == nil {
		spec.Priority = was.Priority
	}
	if spec.PreemptionPolicy == nil {
		spec.PreemptionPolicy = was.PreemptionPolicy
	}
	AddDefaultTolerations(spec)
	if !samePodSpec(&pod.Spec, &old.Spec) {
		pod.Generation = old.Generation + 1
	}
}

func preparePodStatus(_ metav1.Time, pod, old *corev1.Pod) {
	pod.OwnerReferences = old.OwnerReferences
	if pod.Status.QOSClass == "" {
		pod.Status.QOSClass = old.Status.QOSClass
	}
}

func prepareVolumeCreate(now metav1.Time, volume, _ *corev1.PersistentVolume) {
	volume.Status = corev1.PersistentVolumeStatus{Phase: corev1.VolumePending, LastPhaseTransitionTime: &now}
}

func prepareVolumeStatus(now metav1.Time, volume, old *corev1.PersistentVolume) {
	is, was := &volume.Status, &old.Status
	switch {
	case is.Phase == was.Phase:
		if is.LastPhaseTransitionTime == nil {
			is.LastPhaseTransitionTime = was.LastPhaseTransitionTime
		}
	case is.LastPhaseTransitionTime == nil || is.LastPhaseTransitionTime.Equal(was.LastPhaseTransitionTime):
		is.LastPhaseTransitionTime = &now
	}
}

// The gate CrossNamespaceVolumeDataSource is off in 1.36: a source in another namespace is dropped.
func prepareClaimCreate(_ metav1.Time, claim, _ *corev1.PersistentVolumeClaim) {
	claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}
	if ref := claim.Spec.DataSourceRef; ref != nil && ref.Namespace != nil && *ref.Namespace != "" {
		claim.Spec.DataSourceRef = nil
	}
	dropDataSource(&claim.Spec)
	copyDataSource(&claim.Spec)
}

func prepareClaimUpdate(_ metav1.Time, claim, old *corev1.PersistentVolumeClaim) {
	if old.Spec.DataSource == nil && old.Spec.DataSourceRef == nil {
		dropDataSource(&claim.Spec)
	}
	copyDataSource(&claim.Spec)
}

// dropDataSource forgets a dataSource that is neither a claim nor a snapshot, unless dataSourceRef is used.
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

// copyDataSource fills in whichever of dataSource and dataSourceRef was left open.
//
// Upstream: pkg/api/persistentvolumeclaim NormalizeDataSources.
func copyDataSource(spec *corev1.PersistentVolumeClaimSpec) {
	source, ref := spec.DataSource, spec.DataSourceRef
	switch {
	case source != nil && ref == nil:
		spec.DataSourceRef = &corev1.TypedObjectReference{APIGroup: source.APIGroup, Kind: source.Kind, Name: source.Name}
	case source == nil && ref != nil:
		spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: ref.APIGroup, Kind: ref.Kind, Name: ref.Name}
	}
}

func prepareAttachmentCreate(_ metav1.Time, attachment, _ *storagev1.VolumeAttachment) {
	attachment.Status = storagev1.VolumeAttachmentStatus{}
}

// prepareDriverCreate drops what the gate VolumeLimitScaling, off in 1.36, would bring.
func prepareDriverCreate(_ metav1.Time, driver, _ *storagev1.CSIDriver) {
	driver.Spec.PreventPodSchedulingIfMissing = nil
}

// prepareDriverUpdate counts the generation. A driver is created with the one its writer gave it, 0 as a rule.
func prepareDriverUpdate(_ metav1.Time, driver, old *storagev1.CSIDriver) {
	driver.Spec.PreventPodSchedulingIfMissing = nil
	if !equality.Semantic.DeepEqual(driver.Spec, old.Spec) {
		driver.Generation = old.Generation + 1
	}
}
