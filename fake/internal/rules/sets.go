package rules

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A Set has the rules of one resource. P is a pointer to its Go type. A nil function has nothing to
// do. At creation old is nil.
type Set[P any] struct {
	// Name returns what is wrong with a name. nil: NameIsDNSSubdomain.
	Name func(name string, prefix bool) []string
	// Default sets the fields that are empty, at every write.
	Default func(obj P)

	// The Prepare functions set what the server decides, whatever the writer sent.
	PrepareCreate, PrepareUpdate, PrepareStatus func(now metav1.Time, obj, old P)
	// The Validate functions return what is wrong with an object.
	ValidateCreate, ValidateUpdate, ValidateStatus func(obj, old P) field.ErrorList

	// Warn returns the warnings for the writer. It is not called for writes of /status.
	Warn func(obj, old P) []string

	// CopyInto sets out to a deep copy of in. nil: DeepCopyInto.
	CopyInto func(in, out P)
	// Draft sets out to a copy of the part of in that may replace old: all but the status or, for a
	// write of /status, the status and the metadata. The copy may share maps with old.
	Draft func(in, out, old P, status bool)
}

// The rules of the core group.
var (
	Namespace = Set[*corev1.Namespace]{
		Name:           validation.ValidateNamespaceName,
		Default:        defaultNamespace,
		PrepareCreate:  prepareNamespaceCreate,
		PrepareUpdate:  prepareNamespaceUpdate,
		ValidateCreate: validateNamespace,
		ValidateUpdate: validateNamespaceUpdate,
		ValidateStatus: validateNamespaceStatus,
	}
	Node = Set[*corev1.Node]{
		Default:        defaultNode,
		ValidateCreate: validateNode,
		ValidateUpdate: validateNodeUpdate,
		ValidateStatus: validateNodeChange,
		CopyInto:       copyNode,
	}
	Pod = Set[*corev1.Pod]{
		Default:        defaultPod,
		PrepareCreate:  preparePodCreate,
		PrepareUpdate:  preparePodUpdate,
		PrepareStatus:  preparePodStatus,
		ValidateCreate: validatePod,
		ValidateUpdate: validatePodUpdate,
		ValidateStatus: validatePodStatus,
		Warn:           warnPod,
	}
	PersistentVolume = Set[*corev1.PersistentVolume]{
		Default:        defaultVolume,
		PrepareCreate:  prepareVolumeCreate,
		PrepareStatus:  prepareVolumeStatus,
		ValidateCreate: validateVolume,
		ValidateUpdate: validateVolumeUpdate,
		Warn:           warnVolume,
		CopyInto:       copyVolume,
		Draft:          draftVolume,
	}
	PersistentVolumeClaim = Set[*corev1.PersistentVolumeClaim]{
		Default:        defaultClaim,
		PrepareCreate:  prepareClaimCreate,
		PrepareUpdate:  prepareClaimUpdate,
		ValidateCreate: validateClaim,
		ValidateUpdate: validateClaimUpdate,
		ValidateStatus: validateClaimStatus,
		Warn:           warnClaim,
		CopyInto:       copyClaim,
		Draft:          draftClaim,
	}
	Event = Set[*corev1.Event]{
		Default:        defaultEvent,
		ValidateCreate: validateEvent,
		ValidateUpdate: validateEvent,
	}
	// EventV1 has the rules of an event that is written through events.k8s.io.
	EventV1 = Set[*corev1.Event]{
		ValidateCreate: validateNewEvent,
		ValidateUpdate: validateNewEventUpdate,
	}
	Secret = Set[*corev1.Secret]{
		Default:        defaultSecret,
		PrepareUpdate:  prepareSecretUpdate,
		ValidateCreate: validateSecret,
		ValidateUpdate: validateSecretUpdate,
		Warn:           warnSecret,
	}
	ConfigMap = Set[*corev1.ConfigMap]{
		ValidateCreate: validateConfigMap,
		ValidateUpdate: validateConfigMapUpdate,
	}
	ResourceQuota = Set[*corev1.ResourceQuota]{
		PrepareCreate:  prepareQuotaCreate,
		ValidateCreate: validateQuota,
		ValidateUpdate: validateQuotaUpdate,
		ValidateStatus: validateQuotaStatus,
	}
	LimitRange = Set[*corev1.LimitRange]{
		Default:        defaultLimits,
		ValidateCreate: validateLimits,
		ValidateUpdate: validateLimitsUpdate,
	}
	Service = Set[*corev1.Service]{
		Name:           validation.NameIsDNSLabel,
		Default:        defaultService,
		PrepareCreate:  prepareServiceCreate,
		PrepareUpdate:  prepareServiceUpdate,
		ValidateCreate: validateService,
		ValidateUpdate: validateServiceUpdate,
	}
	//lint:ignore SA1019 it is served
	Endpoints = Set[*corev1.Endpoints]{
		Default:        defaultEndpoints,
		ValidateCreate: validateEndpoints,
		ValidateUpdate: validateEndpointsUpdate,
		Warn:           warnEndpoints,
	}
	ReplicationController = Set[*corev1.ReplicationController]{
		Default:        defaultReplicationController,
		PrepareCreate:  prepareReplicationControllerCreate,
		PrepareUpdate:  prepareReplicationControllerUpdate,
		ValidateCreate: validateReplicationController,
		ValidateUpdate: validateReplicationControllerUpdate,
		ValidateStatus: validateReplicationControllerStatus,
	}
	PodTemplate = Set[*corev1.PodTemplate]{
		Default:        defaultPodTemplate,
		PrepareCreate:  preparePodTemplateCreate,
		PrepareUpdate:  preparePodTemplateUpdate,
		ValidateCreate: validatePodTemplate,
		ValidateUpdate: validatePodTemplate,
	}
)

// The rules of storage.k8s.io.
var (
	StorageClass = Set[*storagev1.StorageClass]{
		Default:        defaultClass,
		ValidateCreate: validateClass,
		ValidateUpdate: validateClassUpdate,
		Warn:           warnClass,
	}
	VolumeAttachment = Set[*storagev1.VolumeAttachment]{
		Default:        defaultAttachment,
		PrepareCreate:  prepareAttachmentCreate,
		ValidateCreate: validateAttachment,
		ValidateUpdate: validateAttachmentUpdate,
		ValidateStatus: validateAttachmentUpdate,
	}
	CSIDriver = Set[*storagev1.CSIDriver]{
		Default:        defaultDriver,
		PrepareCreate:  prepareDriverCreate,
		PrepareUpdate:  prepareDriverUpdate,
		ValidateCreate: validateDriver,
		ValidateUpdate: validateDriverUpdate,
		Warn:           warnDriver,
	}
	CSINode = Set[*storagev1.CSINode]{
		Default:        defaultCSINode,
		ValidateCreate: validateCSINode,
		ValidateUpdate: validateCSINodeUpdate,
	}
	CSIStorageCapacity = Set[*storagev1.CSIStorageCapacity]{
		ValidateCreate: validateStorageCapacity,
		ValidateUpdate: validateStorageCapacityUpdate,
	}
	VolumeAttributesClass = Set[*storagev1.VolumeAttributesClass]{
		ValidateCreate: validateAttributesClass,
		ValidateUpdate: validateAttributesClassUpdate,
	}
)

// The rules of apps.
var (
	StatefulSet = Set[*appsv1.StatefulSet]{
		Name:           statefulSetName,
		Default:        defaultStatefulSet,
		PrepareCreate:  prepareStatefulSetCreate,
		PrepareUpdate:  prepareStatefulSetUpdate,
		ValidateCreate: validateStatefulSet,
		ValidateUpdate: validateStatefulSetUpdate,
		ValidateStatus: validateStatefulSetStatus,
		Warn:           warnStatefulSet,
	}
	Deployment = Set[*appsv1.Deployment]{
		Default:        defaultDeployment,
		PrepareCreate:  prepareDeploymentCreate,
		PrepareUpdate:  prepareDeploymentUpdate,
		PrepareStatus:  prepareDeploymentStatus,
		ValidateCreate: validateDeployment,
		ValidateUpdate: validateDeploymentUpdate,
		ValidateStatus: validateDeploymentStatus,
	}
	ReplicaSet = Set[*appsv1.ReplicaSet]{
		Default:        defaultReplicaSet,
		PrepareCreate:  prepareReplicaSetCreate,
		PrepareUpdate:  prepareReplicaSetUpdate,
		ValidateCreate: validateReplicaSet,
		ValidateUpdate: validateReplicaSetUpdate,
		ValidateStatus: validateReplicaSetStatus,
	}
	DaemonSet = Set[*appsv1.DaemonSet]{
		Default:        defaultDaemonSet,
		PrepareCreate:  prepareDaemonSetCreate,
		PrepareUpdate:  prepareDaemonSetUpdate,
		PrepareStatus:  prepareDaemonSetStatus,
		ValidateCreate: validateDaemonSet,
		ValidateUpdate: validateDaemonSetUpdate,
		ValidateStatus: validateDaemonSetStatus,
	}
	ControllerRevision = Set[*appsv1.ControllerRevision]{
		ValidateCreate: validateRevision,
		ValidateUpdate: validateRevisionUpdate,
	}
)

// The rules of batch.
var (
	Job = Set[*batchv1.Job]{
		Default:        defaultJob,
		PrepareCreate:  prepareJobCreate,
		PrepareUpdate:  prepareJobUpdate,
		ValidateCreate: validateJob,
		ValidateUpdate: validateJobUpdate,
		ValidateStatus: validateJobStatus,
		Warn:           warnJob,
	}
	CronJob = Set[*batchv1.CronJob]{
		Default:        defaultCronJob,
		PrepareCreate:  prepareCronJobCreate,
		PrepareUpdate:  prepareCronJobUpdate,
		ValidateCreate: validateCronJob,
		ValidateUpdate: validateCronJobUpdate,
		Warn:           warnCronJob,
	}
)

// The rules of networking.k8s.io, admissionregistration.k8s.io and autoscaling.
var (
	Ingress = Set[*networkingv1.Ingress]{
		PrepareCreate:  prepareIngressCreate,
		PrepareUpdate:  prepareIngressUpdate,
		ValidateCreate: validateIngress,
		ValidateUpdate: validateIngressUpdate,
		ValidateStatus: validateIngressStatus,
		Warn:           warnIngress,
	}
	IngressClass = Set[*networkingv1.IngressClass]{
		Default:        defaultIngressClass,
		PrepareCreate:  prepareIngressClassCreate,
		PrepareUpdate:  prepareIngressClassUpdate,
		ValidateCreate: validateIngressClass,
		ValidateUpdate: validateIngressClassUpdate,
	}
	NetworkPolicy = Set[*networkingv1.NetworkPolicy]{
		Default:        defaultNetworkPolicy,
		PrepareCreate:  prepareNetworkPolicyCreate,
		PrepareUpdate:  prepareNetworkPolicyUpdate,
		ValidateCreate: validateNetworkPolicy,
		ValidateUpdate: validateNetworkPolicy,
		Warn:           warnNetworkPolicy,
	}
	ValidatingWebhookConfiguration = Set[*admissionv1.ValidatingWebhookConfiguration]{
		Default:        defaultValidatingWebhooks,
		PrepareCreate:  prepareValidatingWebhooksCreate,
		PrepareUpdate:  prepareValidatingWebhooksUpdate,
		ValidateCreate: validateValidatingWebhooks,
		ValidateUpdate: validateValidatingWebhooks,
		Warn:           warnValidatingWebhooks,
	}
	MutatingWebhookConfiguration = Set[*admissionv1.MutatingWebhookConfiguration]{
		Default:        defaultMutatingWebhooks,
		PrepareCreate:  prepareMutatingWebhooksCreate,
		PrepareUpdate:  prepareMutatingWebhooksUpdate,
		ValidateCreate: validateMutatingWebhooks,
		ValidateUpdate: validateMutatingWebhooks,
		Warn:           warnMutatingWebhooks,
	}
	ValidatingAdmissionPolicy = Set[*admissionv1.ValidatingAdmissionPolicy]{
		Default:        defaultPolicy,
		PrepareCreate:  preparePolicyCreate,
		PrepareUpdate:  preparePolicyUpdate,
		ValidateCreate: validatePolicy,
		ValidateUpdate: validatePolicy,
		ValidateStatus: validatePolicyStatus,
		Warn:           warnPolicy,
	}
	ValidatingAdmissionPolicyBinding = Set[*admissionv1.ValidatingAdmissionPolicyBinding]{
		Default:        defaultPolicyBinding,
		PrepareCreate:  preparePolicyBindingCreate,
		PrepareUpdate:  preparePolicyBindingUpdate,
		ValidateCreate: validatePolicyBinding,
		ValidateUpdate: validatePolicyBinding,
		Warn:           warnPolicyBinding,
	}
	MutatingAdmissionPolicy = Set[*admissionv1beta1.MutatingAdmissionPolicy]{
		Default:        defaultMutatingPolicy,
		PrepareCreate:  prepareMutatingPolicyCreate,
		PrepareUpdate:  prepareMutatingPolicyUpdate,
		ValidateCreate: validateMutatingPolicy,
		ValidateUpdate: validateMutatingPolicy,
		Warn:           warnMutatingPolicy,
	}
	MutatingAdmissionPolicyBinding = Set[*admissionv1beta1.MutatingAdmissionPolicyBinding]{
		Default:        defaultMutatingBinding,
		PrepareCreate:  prepareMutatingBindingCreate,
		PrepareUpdate:  prepareMutatingBindingUpdate,
		ValidateCreate: validateMutatingBinding,
		ValidateUpdate: validateMutatingBinding,
		Warn:           warnMutatingBinding,
	}
	HorizontalPodAutoscaler = Set[*autoscalingv2.HorizontalPodAutoscaler]{
		Default:        defaultAutoscaler,
		PrepareCreate:  prepareAutoscalerCreate,
		ValidateCreate: validateAutoscaler,
		ValidateUpdate: validateAutoscaler,
		ValidateStatus: validateAutoscalerStatus,
	}
)

// The rules of the other groups.
var (
	Lease = Set[*coordinationv1.Lease]{
		PrepareCreate:  prepareLeaseCreate,
		PrepareUpdate:  prepareLeaseCreate,
		ValidateCreate: validateLease,
		ValidateUpdate: validateLeaseUpdate,
	}
	ClusterRole = Set[*rbacv1.ClusterRole]{
		Name:           pathSegment,
		ValidateCreate: validateClusterRole,
		ValidateUpdate: validateClusterRoleUpdate,
	}
	ClusterRoleBinding = Set[*rbacv1.ClusterRoleBinding]{
		Name:           pathSegment,
		Default:        defaultClusterRoleBinding,
		ValidateCreate: validateClusterRoleBinding,
		ValidateUpdate: validateClusterRoleBindingUpdate,
	}
	Role = Set[*rbacv1.Role]{
		Name:           pathSegment,
		ValidateCreate: validateRole,
		ValidateUpdate: validateRoleUpdate,
	}
	RoleBinding = Set[*rbacv1.RoleBinding]{
		Name:           pathSegment,
		Default:        defaultRoleBinding,
		ValidateCreate: validateRoleBinding,
		ValidateUpdate: validateRoleBindingUpdate,
	}
	PodDisruptionBudget = Set[*policyv1.PodDisruptionBudget]{
		PrepareCreate:  prepareBudgetCreate,
		PrepareUpdate:  prepareBudgetUpdate,
		ValidateCreate: validateBudget,
		ValidateUpdate: validateBudgetUpdate,
		ValidateStatus: validateBudgetStatus,
	}
	PriorityClass = Set[*schedulingv1.PriorityClass]{
		Default:        defaultPriorityClass,
		PrepareCreate:  preparePriorityClassCreate,
		ValidateCreate: validatePriorityClass,
		ValidateUpdate: validatePriorityClassUpdate,
	}
	DeviceClass = Set[*resourcev1.DeviceClass]{
		PrepareCreate:  prepareDeviceClassCreate,
		PrepareUpdate:  prepareDeviceClassUpdate,
		ValidateCreate: validateDeviceClass,
		ValidateUpdate: validateDeviceClassUpdate,
	}
	ResourceClaim = Set[*resourcev1.ResourceClaim]{
		Default:        defaultResourceClaim,
		PrepareCreate:  prepareResourceClaimCreate,
		ValidateCreate: validateResourceClaim,
		ValidateUpdate: validateResourceClaimUpdate,
	}
	EndpointSlice = Set[*discoveryv1.EndpointSlice]{
		Default:        defaultEndpointSlice,
		PrepareCreate:  prepareEndpointSliceCreate,
		PrepareUpdate:  prepareEndpointSliceUpdate,
		ValidateCreate: validateEndpointSlice,
		ValidateUpdate: validateEndpointSliceUpdate,
		Warn:           warnEndpointSlice,
	}
	RuntimeClass = Set[*nodev1.RuntimeClass]{
		ValidateCreate: validateRuntimeClass,
		ValidateUpdate: validateRuntimeClassUpdate,
	}
	FlowSchema = Set[*flowcontrolv1.FlowSchema]{
		Default:        defaultFlowSchema,
		PrepareCreate:  prepareFlowSchemaCreate,
		PrepareUpdate:  prepareFlowSchemaUpdate,
		ValidateCreate: validateFlowSchema,
		ValidateUpdate: validateFlowSchema,
	}
	PriorityLevelConfiguration = Set[*flowcontrolv1.PriorityLevelConfiguration]{
		Default:        defaultPriorityLevel,
		PrepareCreate:  preparePriorityLevelCreate,
		PrepareUpdate:  preparePriorityLevelUpdate,
		ValidateCreate: validatePriorityLevel,
		ValidateUpdate: validatePriorityLevel,
	}
	ResourceSlice = Set[*resourcev1.ResourceSlice]{
		PrepareCreate:  prepareSliceCreate,
		PrepareUpdate:  prepareSliceUpdate,
		ValidateCreate: validateSlice,
		ValidateUpdate: validateSliceUpdate,
	}
)
