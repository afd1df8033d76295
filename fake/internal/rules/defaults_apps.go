package rules

import (
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// This file has the defaults of the kinds that create pods, and the fields that the server sets. A
// generation starts at 1 and grows with each change of the spec.
//
// Upstream: pkg/apis/apps/v1/defaults.go; pkg/registry/apps, PrepareForCreate and PrepareForUpdate
// of the strategies.

const (
	replicasDefault        = 1
	revisionHistoryDefault = 10
	progressSecondsDefault = 600
)

func defaultTemplate(t *corev1.PodTemplateSpec) { defaultPodSpec(&t.Spec) }

func defaultStatefulSet(stateful *appsv1.StatefulSet) {
	spec := &stateful.Spec
	defaultTemplate(&spec.Template)
	setIfEmpty(&spec.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
	if s := &spec.UpdateStrategy; s.Type == "" {
		s.Type = appsv1.RollingUpdateStatefulSetStrategyType
		if s.RollingUpdate == nil {
			s.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{}
		}
	}
	if s := &spec.UpdateStrategy; s.Type == appsv1.RollingUpdateStatefulSetStrategyType && s.RollingUpdate != nil {
		setIfNil(&s.RollingUpdate.Partition, 0)
	}
	setIfNil(&spec.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	setIfEmpty(&spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted,
		appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	setIfEmpty(&spec.PersistentVolumeClaimRetentionPolicy.WhenScaled,
		appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	setIfNil(&spec.Replicas, replicasDefault)
	setIfNil(&spec.RevisionHistoryLimit, revisionHistoryDefault)
	for i := range spec.VolumeClaimTemplates {
		t := &spec.VolumeClaimTemplates[i]
		t.APIVersion, t.Kind = "v1", "PersistentVolumeClaim"
		defaultClaim(t)
	}
	for i := range stateful.Status.Conditions {
		Truncate(&stateful.Status.Conditions[i].LastTransitionTime)
	}
}

func prepareStatefulSetCreate(_ metav1.Time, set, _ *appsv1.StatefulSet) {
	set.Status, set.Generation = appsv1.StatefulSetStatus{}, 1
	dropMaxUnavailable(&set.Spec, nil)
	for i := range set.Spec.VolumeClaimTemplates {
		// As sent: the status of a claim template has only its default.
		set.Spec.VolumeClaimTemplates[i].Status.Phase = corev1.ClaimPending
	}
}

// dropMaxUnavailable drops the field of the feature gate MaxUnavailableStatefulSet, which is off in
// 1.36, unless the old spec uses it.
func dropMaxUnavailable(spec, old *appsv1.StatefulSetSpec) {
	used := old != nil && old.UpdateStrategy.RollingUpdate != nil && old.UpdateStrategy.RollingUpdate.MaxUnavailable != nil
	if r := spec.UpdateStrategy.RollingUpdate; r != nil && !used {
		r.MaxUnavailable = nil
	}
}

func prepareStatefulSetUpdate(_ metav1.Time, set, old *appsv1.StatefulSet) {
	dropMaxUnavailable(&set.Spec, &old.Spec)
	if !equal(&set.Spec, &old.Spec) {
		set.Generation = old.Generation + 1
	}
}

func defaultDeployment(d *appsv1.Deployment) {
	defaultTemplate(&d.Spec.Template)
	setIfNil(&d.Spec.Replicas, replicasDefault)
	s := &d.Spec.Strategy
	setIfEmpty(&s.Type, appsv1.RollingUpdateDeploymentStrategyType)
	if s.Type == appsv1.RollingUpdateDeploymentStrategyType {
		setIfNil(&s.RollingUpdate, appsv1.RollingUpdateDeployment{})
		setIfNil(&s.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
		setIfNil(&s.RollingUpdate.MaxSurge, intstr.FromString("25%"))
	}
	setIfNil(&d.Spec.RevisionHistoryLimit, revisionHistoryDefault)
	setIfNil(&d.Spec.ProgressDeadlineSeconds, progressSecondsDefault)
	for i := range d.Status.Conditions {
		c := &d.Status.Conditions[i]
		Truncate(&c.LastUpdateTime, &c.LastTransitionTime)
	}
}

func prepareDeploymentCreate(_ metav1.Time, d, _ *appsv1.Deployment) {
	d.Status, d.Generation = appsv1.DeploymentStatus{}, 1
}

// prepareDeploymentUpdate also counts changes of annotations: they are copied to replica sets.
func prepareDeploymentUpdate(_ metav1.Time, d, old *appsv1.Deployment) {
	if !equal(&d.Spec, &old.Spec) || !equality.Semantic.DeepEqual(d.Annotations, old.Annotations) {
		d.Generation = old.Generation + 1
	}
}

// prepareDeploymentStatus restores the labels, which a write of /status must not change.
func prepareDeploymentStatus(_ metav1.Time, d, old *appsv1.Deployment) { d.Labels = old.Labels }

func defaultReplicaSet(r *appsv1.ReplicaSet) {
	defaultTemplate(&r.Spec.Template)
	setIfNil(&r.Spec.Replicas, replicasDefault)
	for i := range r.Status.Conditions {
		Truncate(&r.Status.Conditions[i].LastTransitionTime)
	}
}

func prepareReplicaSetCreate(_ metav1.Time, r, _ *appsv1.ReplicaSet) {
	r.Status, r.Generation = appsv1.ReplicaSetStatus{}, 1
}

func prepareReplicaSetUpdate(_ metav1.Time, r, old *appsv1.ReplicaSet) {
	if !equal(&r.Spec, &old.Spec) {
		r.Generation = old.Generation + 1
	}
}

func defaultDaemonSet(d *appsv1.DaemonSet) {
	defaultTemplate(&d.Spec.Template)
	s := &d.Spec.UpdateStrategy
	setIfEmpty(&s.Type, appsv1.RollingUpdateDaemonSetStrategyType)
	if s.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		setIfNil(&s.RollingUpdate, appsv1.RollingUpdateDaemonSet{})
		setIfNil(&s.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
		setIfNil(&s.RollingUpdate.MaxSurge, intstr.FromInt32(0))
	}
	setIfNil(&d.Spec.RevisionHistoryLimit, revisionHistoryDefault)
	for i := range d.Status.Conditions {
		Truncate(&d.Status.Conditions[i].LastTransitionTime)
	}
}

// templateGeneration counts the changes of a daemon set's template. It is a field of upstream's
// internal type; this API version has it as an annotation, which only the server changes.
//
// Upstream: pkg/apis/apps/v1 Convert_apps_DaemonSet_To_v1_DaemonSet.
func templateGeneration(d *appsv1.DaemonSet) int64 {
	n, _ := strconv.ParseInt(d.Annotations[appsv1.DeprecatedTemplateGeneration], 10, 64)
	return n
}

func setTemplateGeneration(d *appsv1.DaemonSet, n int64) {
	metav1.SetMetaDataAnnotation(&d.ObjectMeta, appsv1.DeprecatedTemplateGeneration, strconv.FormatInt(n, 10))
}

// ShowTemplateGeneration sets a sent daemon set's annotation to what upstream's field manager sees.
// A writer that does not send it writes 0, and so comes to own it.
func ShowTemplateGeneration(d *appsv1.DaemonSet) { setTemplateGeneration(d, templateGeneration(d)) }

func prepareDaemonSetCreate(_ metav1.Time, d, _ *appsv1.DaemonSet) {
	d.Status, d.Generation = appsv1.DaemonSetStatus{}, 1
	setTemplateGeneration(d, max(1, templateGeneration(d)))
}

func prepareDaemonSetUpdate(_ metav1.Time, d, old *appsv1.DaemonSet) {
	n := templateGeneration(old)
	if !equal(&d.Spec.Template, &old.Spec.Template) {
		n++
	}
	setTemplateGeneration(d, n)
	if !equal(&d.Spec, &old.Spec) {
		d.Generation = old.Generation + 1
	}
}

// prepareDaemonSetStatus restores the annotation, which belongs to the spec.
func prepareDaemonSetStatus(_ metav1.Time, d, old *appsv1.DaemonSet) {
	setTemplateGeneration(d, templateGeneration(old))
}

// defaultReplicationController sets labels and selector from the template.
//
// Upstream: pkg/apis/core/v1 SetDefaults_ReplicationController.
func defaultReplicationController(r *corev1.ReplicationController) {
	if t := r.Spec.Template; t != nil {
		if len(t.Labels) > 0 {
			if len(r.Spec.Selector) == 0 {
				r.Spec.Selector = maps.Clone(t.Labels)
			}
			if len(r.Labels) == 0 {
				r.Labels = maps.Clone(t.Labels)
			}
		}
		defaultTemplate(t)
	}
	setIfNil(&r.Spec.Replicas, replicasDefault)
	for i := range r.Status.Conditions {
		Truncate(&r.Status.Conditions[i].LastTransitionTime)
	}
}

func prepareReplicationControllerCreate(_ metav1.Time, r, _ *corev1.ReplicationController) {
	r.Status, r.Generation = corev1.ReplicationControllerStatus{}, 1
}

func prepareReplicationControllerUpdate(_ metav1.Time, r, old *corev1.ReplicationController) {
	if !equal(&r.Spec, &old.Spec) {
		r.Generation = old.Generation + 1
	}
}
