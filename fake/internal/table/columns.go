package table

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volsim/volsim/fake"
)

// kind is the table of a built-in kind.
type kind struct {
	heads      []metav1.TableColumnDefinition
	cells      func(obj fake.Object, now clock) []any
	conditions func(obj fake.Object) []metav1.TableRowCondition // nil: none
}

func (k kind) columns() []metav1.TableColumnDefinition { return k.heads }

func (k kind) row(obj fake.Object, now clock) (metav1.TableRow, error) {
	row := metav1.TableRow{Cells: k.cells(obj, now)}
	if k.conditions != nil {
		row.Conditions = k.conditions(obj)
	}
	return row, nil
}

// kindsOf are the kinds that have columns of their own.
var kindsOf = map[schema.GroupKind]kind{
	{Kind: "Namespace"}:             of(namespaceCells, name, text("Status", "The status of the namespace"), age),
	{Kind: "Node"}:                  of(nodeCells, nodeColumns...),
	{Kind: "Pod"}:                   {heads: podColumns, cells: untyped(podCells), conditions: podConditions},
	{Kind: "PersistentVolume"}:      of(volumeCells, volumeColumns...),
	{Kind: "PersistentVolumeClaim"}: of(claimCells, claimColumns...),
	{Kind: "Event"}:                 of(eventCells, eventColumns...),
	{Kind: "Secret"}:                of(secretCells, secretColumns...),
	{Kind: "ConfigMap"}:             of(configCells, configColumns...),
	{Kind: "ServiceAccount"}:        of(accountCells, name, age),
	{Kind: "ResourceQuota"}:         of(quotaCells, quotaColumns...),
	{Kind: "Service"}:               of(serviceCells, serviceColumns...),
	{Kind: "Endpoints"}:             of(endpointsCells, endpointsColumns...),
	{Kind: "ReplicationController"}: of(replicationCells, replicationColumns...),

	{Group: "storage.k8s.io", Kind: "StorageClass"}:          of(classCells, classColumns...),
	{Group: "storage.k8s.io", Kind: "VolumeAttachment"}:      of(attachmentCells, attachmentColumns...),
	{Group: "storage.k8s.io", Kind: "CSIDriver"}:             of(driverCells, driverColumns...),
	{Group: "storage.k8s.io", Kind: "CSINode"}:               of(csiNodeCells, csiNodeColumns...),
	{Group: "storage.k8s.io", Kind: "VolumeAttributesClass"}: of(attributesCells, attributesColumns...),

	{Group: "apps", Kind: "StatefulSet"}:        of(statefulCells, statefulColumns...),
	{Group: "apps", Kind: "Deployment"}:         of(deploymentCells, deploymentColumns...),
	{Group: "apps", Kind: "ReplicaSet"}:         of(replicaSetCells, replicaSetColumns...),
	{Group: "apps", Kind: "DaemonSet"}:          of(daemonCells, daemonColumns...),
	{Group: "apps", Kind: "ControllerRevision"}: of(revisionCells, revisionColumns...),
	{Group: "autoscaling", Kind: "Scale"}:       of(scaleCells, scaleColumns...),

	{Group: "coordination.k8s.io", Kind: "Lease"}:                    of(leaseCells, leaseColumns...),
	{Group: "events.k8s.io", Kind: "Event"}:                          of(newEventCells, eventColumns...),
	{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}:        of(bindingCells, bindingColumns...),
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}: of(clusterBindingCells, clusterBindingColumns...),
	{Group: "policy", Kind: "PodDisruptionBudget"}:                   of(budgetCells, budgetColumns...),
	{Group: "scheduling.k8s.io", Kind: "PriorityClass"}:              of(priorityCells, priorityColumns...),
	{Group: "resource.k8s.io", Kind: "DeviceClass"}:                  of(deviceClassCells, name, age),
	{Group: "resource.k8s.io", Kind: "ResourceClaim"}:                of(resourceClaimCells, resourceClaimColumns...),
	{Group: "resource.k8s.io", Kind: "ResourceSlice"}:                of(sliceCells, sliceColumns...),
}

// of makes the table of a kind.
func of[P fake.Object](cells func(P, clock) []any, columns ...metav1.TableColumnDefinition) kind {
	return kind{heads: columns, cells: untyped(cells)}
}

func untyped[P fake.Object](cells func(P, clock) []any) func(fake.Object, clock) []any {
	return func(obj fake.Object, now clock) []any { return cells(obj.(P), now) }
}

// The columns that most kinds have.
var (
	name = metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name", Description: doc(metav1.ObjectMeta{}, "name")}
	age  = text("Age", doc(metav1.ObjectMeta{}, "creationTimestamp"))
)

// documented is a type of the API.
type documented interface{ SwaggerDoc() map[string]string }

// doc is what the API says of a field.
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

// wide is a column that kubectl shows with -o wide only.
func wide(c metav1.TableColumnDefinition) metav1.TableColumnDefinition {
	c.Priority = 1
	return c
}

// orElse is a text, or another where it is empty.
func orElse(is, otherwise string) string {
	if is == "" {
		return otherwise
	}
	return is
}
