package table

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volsim/volsim/fake"
)

// kindPrinter is the printer of a built-in kind.
type kindPrinter struct {
	heads      []metav1.TableColumnDefinition
	cells      func(obj fake.Object, now clock) []any
	conditions func(obj fake.Object) []metav1.TableRowCondition // nil: none
}

func (k kindPrinter) columns() []metav1.TableColumnDefinition { return k.heads }

func (k kindPrinter) row(obj fake.Object, now clock) (metav1.TableRow, error) {
	row := metav1.TableRow{Cells: k.cells(obj, now)}
	if k.conditions != nil {
		row.Conditions = k.conditions(obj)
	}
	return row, nil
}

// printers are the kinds with columns of their own.
var printers = map[schema.GroupKind]kindPrinter{
	{Kind: "Namespace"}: newPrinter(namespaceCells, name, text("Status", "The status of the namespace"),
		age),
	{Kind: "Node"}:                  newPrinter(nodeCells, nodeColumns...),
	{Kind: "Pod"}:                   {heads: podColumns, cells: untyped(podCells), conditions: podConditions},
	{Kind: "PersistentVolume"}:      newPrinter(volumeCells, volumeColumns...),
	{Kind: "PersistentVolumeClaim"}: newPrinter(claimCells, claimColumns...),
	{Kind: "Event"}:                 newPrinter(eventCells, eventColumns...),
	{Kind: "Secret"}:                newPrinter(secretCells, secretColumns...),
	{Kind: "ConfigMap"}:             newPrinter(configCells, configColumns...),
	{Kind: "ServiceAccount"}:        newPrinter(accountCells, name, age),
	{Kind: "ResourceQuota"}:         newPrinter(quotaCells, quotaColumns...),
	{Kind: "Service"}:               newPrinter(serviceCells, serviceColumns...),
	{Kind: "Endpoints"}:             newPrinter(endpointsCells, endpointsColumns...),
	{Kind: "ReplicationController"}: newPrinter(replicationCells, replicationColumns...),
	{Kind: "PodTemplate"}:           newPrinter(podTemplateCells, podTemplateColumns...),

	{Group: "storage.k8s.io", Kind: "StorageClass"}:          newPrinter(classCells, classColumns...),
	{Group: "storage.k8s.io", Kind: "VolumeAttachment"}:      newPrinter(attachmentCells, attachmentColumns...),
	{Group: "storage.k8s.io", Kind: "CSIDriver"}:             newPrinter(driverCells, driverColumns...),
	{Group: "storage.k8s.io", Kind: "CSINode"}:               newPrinter(csiNodeCells, csiNodeColumns...),
	{Group: "storage.k8s.io", Kind: "VolumeAttributesClass"}: newPrinter(attributesCells, attributesColumns...),

	{Group: "apps", Kind: "StatefulSet"}:        newPrinter(statefulCells, statefulColumns...),
	{Group: "apps", Kind: "Deployment"}:         newPrinter(deploymentCells, deploymentColumns...),
	{Group: "apps", Kind: "ReplicaSet"}:         newPrinter(replicaSetCells, replicaSetColumns...),
	{Group: "apps", Kind: "DaemonSet"}:          newPrinter(daemonCells, daemonColumns...),
	{Group: "apps", Kind: "ControllerRevision"}: newPrinter(revisionCells, revisionColumns...),
	{Group: "autoscaling", Kind: "Scale"}:       newPrinter(scaleCells, scaleColumns...),

	{Group: "batch", Kind: "Job"}:     newPrinter(jobCells, jobColumns...),
	{Group: "batch", Kind: "CronJob"}: newPrinter(cronJobCells, cronJobColumns...),

	{Group: "networking.k8s.io", Kind: "Ingress"}:                                   newPrinter(ingressCells, ingressColumns...),
	{Group: "networking.k8s.io", Kind: "IngressClass"}:                              newPrinter(ingressClassCells, ingressClassColumns...),
	{Group: "networking.k8s.io", Kind: "NetworkPolicy"}:                             newPrinter(networkPolicyCells, networkPolicyColumns...),
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}: newPrinter(validatingCells, webhookColumns...),
	{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"}:   newPrinter(mutatingCells, webhookColumns...),
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicy"}: newPrinter(policyCells,
		policyColumns("Validations", "Validations indicates the number of validation rules defined in this configuration")...),
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicyBinding"}: newPrinter(policyBindingCells, policyBindingColumns...),
	{Group: "admissionregistration.k8s.io", Kind: "MutatingAdmissionPolicy"}: newPrinter(mutatingPolicyCells,
		policyColumns("Mutations", "Mutation indicates the number of mutations rules defined in this configuration")...),
	{Group: "admissionregistration.k8s.io", Kind: "MutatingAdmissionPolicyBinding"}: newPrinter(mutatingBindingCells, policyBindingColumns...),
	{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}: {
		heads: autoscalerColumns, cells: func(obj fake.Object, now clock) []any {
			if a, ok := obj.(*autoscalingv1.HorizontalPodAutoscaler); ok {
				return oldAutoscalerCells(a, now)
			}
			return autoscalerCells(obj.(*autoscalingv2.HorizontalPodAutoscaler), now)
		},
	},

	{Group: "coordination.k8s.io", Kind: "Lease"}:             newPrinter(leaseCells, leaseColumns...),
	{Group: "events.k8s.io", Kind: "Event"}:                   newPrinter(newEventCells, eventColumns...),
	{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}: newPrinter(bindingCells, bindingColumns...),
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}: newPrinter(clusterBindingCells,
		clusterBindingColumns...),
	{Group: "policy", Kind: "PodDisruptionBudget"}:      newPrinter(budgetCells, budgetColumns...),
	{Group: "scheduling.k8s.io", Kind: "PriorityClass"}: newPrinter(priorityCells, priorityColumns...),
	{Group: "resource.k8s.io", Kind: "DeviceClass"}:     newPrinter(deviceClassCells, name, age),
	{Group: "resource.k8s.io", Kind: "ResourceClaim"}: newPrinter(resourceClaimCells,
		resourceClaimColumns...),
	{Group: "resource.k8s.io", Kind: "ResourceSlice"}: newPrinter(sliceCells, sliceColumns...),

	{Group: "discovery.k8s.io", Kind: "EndpointSlice"}: newPrinter(endpointSliceCells, endpointSliceColumns...),
	{Group: "node.k8s.io", Kind: "RuntimeClass"}:       newPrinter(runtimeClassCells, name, text("Handler", ""), age),
	flowSchema: newPrinter(flowSchemaCells, flowSchemaColumns...),
	{Group: "flowcontrol.apiserver.k8s.io", Kind: "PriorityLevelConfiguration"}: newPrinter(priorityLevelCells,
		priorityLevelColumns...),
}

// newPrinter returns the printer of a kind.
func newPrinter[P fake.Object](cells func(P, clock) []any, columns ...metav1.TableColumnDefinition) kindPrinter {
	return kindPrinter{heads: columns, cells: untyped(cells)}
}

func untyped[P fake.Object](cells func(P, clock) []any) func(fake.Object, clock) []any {
	return func(obj fake.Object, now clock) []any { return cells(obj.(P), now) }
}

// The columns that most kinds have.
var (
	name = metav1.TableColumnDefinition{
		Name: "Name", Type: "string", Format: "name", Description: doc(metav1.ObjectMeta{}, "name"),
	}
	age = text("Age", doc(metav1.ObjectMeta{}, "creationTimestamp"))
)

// documented is a type of the API.
type documented interface{ SwaggerDoc() map[string]string }

// doc returns the API documentation of a field.
func doc(of documented, field string) string { return of.SwaggerDoc()[field] }

func text(name, about string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "string", Description: about}
}

func number(name, about string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "integer", Description: about}
}

func yesNo(name, about string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "boolean", Description: about}
}

// wide marks a column that kubectl shows with -o wide only.
func wide(c metav1.TableColumnDefinition) metav1.TableColumnDefinition {
	c.Priority = 1
	return c
}

// valueOr returns a text, or another one if it is empty.
func valueOr(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}
