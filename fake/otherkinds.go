package fake

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake/internal/rules"
)

// otherKinds are the resources of the smaller groups. Apart from leases they are hardly validated.
//
// Upstream: pkg/registry, the strategies.
var otherKinds = []*kind{
	newKind(strategy[*coordinationv1.Lease]{
		resource: "leases", gvk: coordinationv1.SchemeGroupVersion.WithKind("Lease"), namespaced: true,
		rules:               rules.Lease,
		deleteReturnsStatus: true,
		allowCreateOnUpdate: true,
	}, func(m metav1.ListMeta, items []coordinationv1.Lease) runtime.Object {
		return &coordinationv1.LeaseList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*rbacv1.ClusterRole]{
		resource: "clusterroles", gvk: rbacv1.SchemeGroupVersion.WithKind("ClusterRole"),
		rules:                    rules.ClusterRole,
		allowUnconditionalUpdate: true,
		allowCreateOnUpdate:      true,
		deleteReturnsStatus:      true,
	}, func(m metav1.ListMeta, items []rbacv1.ClusterRole) runtime.Object {
		return &rbacv1.ClusterRoleList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*rbacv1.ClusterRoleBinding]{
		resource: "clusterrolebindings", gvk: rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"),
		rules:                    rules.ClusterRoleBinding,
		allowUnconditionalUpdate: true,
		allowCreateOnUpdate:      true,
		deleteReturnsStatus:      true,
	}, func(m metav1.ListMeta, items []rbacv1.ClusterRoleBinding) runtime.Object {
		return &rbacv1.ClusterRoleBindingList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*rbacv1.Role]{
		resource: "roles", gvk: rbacv1.SchemeGroupVersion.WithKind("Role"), namespaced: true,
		rules:                    rules.Role,
		allowUnconditionalUpdate: true,
		allowCreateOnUpdate:      true,
		deleteReturnsStatus:      true,
	}, func(m metav1.ListMeta, items []rbacv1.Role) runtime.Object {
		return &rbacv1.RoleList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*rbacv1.RoleBinding]{
		resource: "rolebindings", gvk: rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), namespaced: true,
		rules:                    rules.RoleBinding,
		allowUnconditionalUpdate: true,
		allowCreateOnUpdate:      true,
		deleteReturnsStatus:      true,
	}, func(m metav1.ListMeta, items []rbacv1.RoleBinding) runtime.Object {
		return &rbacv1.RoleBindingList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*policyv1.PodDisruptionBudget]{
		resource: "poddisruptionbudgets",
		gvk:      policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), namespaced: true,
		rules:                 rules.PodDisruptionBudget,
		short:                 []string{"pdb"},
		copyStatus:            func(to, from *policyv1.PodDisruptionBudget) { to.Status = from.Status },
		statusUpdatesMetadata: true,
		deleteReturnsStatus:   true,
	}, func(m metav1.ListMeta, items []policyv1.PodDisruptionBudget) runtime.Object {
		return &policyv1.PodDisruptionBudgetList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*schedulingv1.PriorityClass]{
		resource: "priorityclasses", gvk: schedulingv1.SchemeGroupVersion.WithKind("PriorityClass"),
		rules:                    rules.PriorityClass,
		short:                    []string{"pc"},
		allowUnconditionalUpdate: true,
		deleteReturnsStatus:      true,
	}, func(m metav1.ListMeta, items []schedulingv1.PriorityClass) runtime.Object {
		return &schedulingv1.PriorityClassList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*resourcev1.DeviceClass]{
		resource: "deviceclasses", gvk: resourcev1.SchemeGroupVersion.WithKind("DeviceClass"),
		rules:                    rules.DeviceClass,
		allowUnconditionalUpdate: true,
	}, func(m metav1.ListMeta, items []resourcev1.DeviceClass) runtime.Object {
		return &resourcev1.DeviceClassList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*resourcev1.ResourceClaim]{
		resource: "resourceclaims", gvk: resourcev1.SchemeGroupVersion.WithKind("ResourceClaim"), namespaced: true,
		rules:                    rules.ResourceClaim,
		copyStatus:               func(to, from *resourcev1.ResourceClaim) { to.Status = from.Status },
		allowUnconditionalUpdate: true,
	}, func(m metav1.ListMeta, items []resourcev1.ResourceClaim) runtime.Object {
		return &resourcev1.ResourceClaimList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*resourcev1.ResourceSlice]{
		resource: "resourceslices", gvk: resourcev1.SchemeGroupVersion.WithKind("ResourceSlice"),
		rules: rules.ResourceSlice,
		fields: map[string]func(*resourcev1.ResourceSlice) string{
			"spec.driver":   func(s *resourcev1.ResourceSlice) string { return s.Spec.Driver },
			"spec.nodeName": func(s *resourcev1.ResourceSlice) string { return ptr.Deref(s.Spec.NodeName, "") },
		},
		allowUnconditionalUpdate: true,
		fieldError: func(label string) string {
			return "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: " + label
		},
	}, func(m metav1.ListMeta, items []resourcev1.ResourceSlice) runtime.Object {
		return &resourcev1.ResourceSliceList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*discoveryv1.EndpointSlice]{
		resource: "endpointslices", gvk: discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), namespaced: true,
		rules:                    rules.EndpointSlice,
		allowUnconditionalUpdate: true,
		deleteReturnsStatus:      true,
	}, func(m metav1.ListMeta, items []discoveryv1.EndpointSlice) runtime.Object {
		return &discoveryv1.EndpointSliceList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*nodev1.RuntimeClass]{
		resource: "runtimeclasses", gvk: nodev1.SchemeGroupVersion.WithKind("RuntimeClass"),
		rules:               rules.RuntimeClass,
		allowCreateOnUpdate: true,
		deleteReturnsStatus: true,
	}, func(m metav1.ListMeta, items []nodev1.RuntimeClass) runtime.Object {
		return &nodev1.RuntimeClassList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*flowcontrolv1.FlowSchema]{
		resource: "flowschemas", gvk: flowcontrolv1.SchemeGroupVersion.WithKind("FlowSchema"),
		rules:                    rules.FlowSchema,
		copyStatus:               func(to, from *flowcontrolv1.FlowSchema) { to.Status = from.Status },
		allowUnconditionalUpdate: true,
		deleteReturnsStatus:      true,
	}, func(m metav1.ListMeta, items []flowcontrolv1.FlowSchema) runtime.Object {
		return &flowcontrolv1.FlowSchemaList{ListMeta: m, Items: items}
	}),

	newKind(strategy[*flowcontrolv1.PriorityLevelConfiguration]{
		resource: "prioritylevelconfigurations", gvk: flowcontrolv1.SchemeGroupVersion.WithKind("PriorityLevelConfiguration"),
		rules:                    rules.PriorityLevelConfiguration,
		copyStatus:               func(to, from *flowcontrolv1.PriorityLevelConfiguration) { to.Status = from.Status },
		allowUnconditionalUpdate: true,
		deleteReturnsStatus:      true,
	}, func(m metav1.ListMeta, items []flowcontrolv1.PriorityLevelConfiguration) runtime.Object {
		return &flowcontrolv1.PriorityLevelConfigurationList{ListMeta: m, Items: items}
	}),
}
