package openapi

import (
	"slices"
	"strings"
)

// required reports whether a field is required: its tag lacks omitempty, unless a source comment
// says otherwise.
func required(model, field string, omitEmpty bool) bool {
	name := strings.TrimPrefix(model, "io.k8s.api.") + "." + field
	if omitEmpty {
		return slices.Contains(requiredOverrides, name)
	}
	return !slices.Contains(optionalOverrides, name)
}

// optionalOverrides are the fields without omitempty that are marked +optional.
var optionalOverrides = []string{
	"apps.v1.StatefulSetOrdinals.start",
	"apps.v1.StatefulSetSpec.serviceName",
	"apps.v1.StatefulSetStatus.availableReplicas",
	"authentication.v1.TokenRequest.spec",
	"authentication.v1.TokenRequestSpec.audiences",
	"authentication.v1.TokenRequestSpec.boundObjectRef",
	"authentication.v1.TokenRequestSpec.expirationSeconds",
	"authentication.v1.TokenRequestStatus.expirationTimestamp",
	"authentication.v1.TokenRequestStatus.token",
	"autoscaling.v2.HorizontalPodAutoscalerStatus.currentMetrics",
	"batch.v1.PodFailurePolicyOnPodConditionsPattern.status",
	"core.v1.AzureFilePersistentVolumeSource.secretNamespace",
	"core.v1.ContainerImage.names",
	"core.v1.Event.reportingComponent",
	"core.v1.Event.reportingInstance",
	"core.v1.GRPCAction.service",
	"core.v1.NodeRuntimeHandler.name",
	"core.v1.ProjectedVolumeSource.sources",
	"core.v1.TypedLocalObjectReference.apiGroup",
	"core.v1.TypedObjectReference.apiGroup",
	"discovery.v1.EndpointSlice.endpoints",
	"discovery.v1.EndpointSlice.ports",
	"events.v1.Event.metadata",
	"flowcontrol.v1.FlowSchemaSpec.matchingPrecedence",
	"flowcontrol.v1.LimitedPriorityLevelConfiguration.nominalConcurrencyShares",
	"flowcontrol.v1.QueuingConfiguration.handSize",
	"flowcontrol.v1.QueuingConfiguration.queueLengthLimit",
	"flowcontrol.v1.QueuingConfiguration.queues",
	"flowcontrol.v1.ResourcePolicyRule.namespaces",
	"networking.v1.IngressClassParametersReference.scope",
	"networking.v1.NetworkPolicySpec.podSelector",
	"policy.v1.PodDisruptionBudgetStatus.currentHealthy",
	"policy.v1.PodDisruptionBudgetStatus.desiredHealthy",
	"policy.v1.PodDisruptionBudgetStatus.disruptionsAllowed",
	"policy.v1.PodDisruptionBudgetStatus.expectedPods",
	"rbac.v1.ClusterRole.rules",
	"rbac.v1.Role.rules",
	"rbac.v1.RoleRef.apiGroup",
	"resource.v1.AllocatedDeviceStatus.conditions",
	"resource.v1.CapacityRequestPolicy.default",
	"resource.v1.DeviceClaim.requests",
	"resource.v1.ResourceClaimSpec.devices",
	"scheduling.v1.PriorityClass.value",
	"storage.v1.CSINodeDriver.topologyKeys",
}

// requiredOverrides are the fields with omitempty that are marked +required.
var requiredOverrides = []string{
	"admissionregistration.v1.ValidatingAdmissionPolicyBinding.spec",
	"admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec.policyName",
	"admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec.validationActions",
	"authentication.v1.TokenReviewSpec.token",
	"autoscaling.v1.HorizontalPodAutoscaler.spec",
	"autoscaling.v2.HorizontalPodAutoscaler.spec",
	"batch.v1.CronJob.spec",
	"core.v1.ContainerRestartRule.action",
	"core.v1.ContainerRestartRuleOnExitCodes.operator",
	"core.v1.ImageVolumeStatus.imageRef",
	"core.v1.PodCertificateProjection.keyType",
	"core.v1.PodCertificateProjection.signerName",
	"resource.v1.CapacityRequestPolicyRange.min",
	"resource.v1.CounterSet.counters",
	"resource.v1.DeviceCounterConsumption.counters",
}
