package fake

import (
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake/internal/rules"
)

const (
	// serverService is the name of the service that leads to the API server.
	serverService = "kubernetes"
	serverPort    = 6443
	// serverAddress is an address for documentation (RFC 5737).
	serverAddress = "192.0.2.1"
)

// A clusterObject is an object that a kube-apiserver creates when it starts.
type clusterObject struct {
	resource string
	object   Object
}

// clusterObjects are the objects that a kube-apiserver creates when it starts. They are shared:
// each server stores shallow copies.
//
// Differs: the endpoint of the service is an address at which nothing listens; see Advertise of a
// listener. Of the flow schemas and priority levels there are the mandatory ones. None is created
// again if it is deleted.
//
// Upstream: pkg/controlplane/controller/kubernetesservice Controller, pkg/controlplane/reconcilers;
// pkg/registry/scheduling/rest, pkg/registry/flowcontrol/rest, their hooks after start.
var clusterObjects = sync.OnceValue(func() []clusterObject {
	all := append(serverServiceObjects(), []clusterObject{
		{"priorityclasses", systemClass("system-cluster-critical",
			"Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.")},
		{"priorityclasses", systemClass("system-node-critical",
			"Used for system critical pods that must not be moved from their current node.")},
		{"prioritylevelconfigurations", priorityLevel(flowcontrolv1.PriorityLevelConfigurationNameExempt,
			flowcontrolv1.PriorityLevelConfigurationSpec{
				Type: flowcontrolv1.PriorityLevelEnablementExempt,
				Exempt: &flowcontrolv1.ExemptPriorityLevelConfiguration{
					NominalConcurrencyShares: ptr.To(int32(0)), LendablePercent: ptr.To(int32(0)),
				},
			})},
		{"prioritylevelconfigurations", priorityLevel(flowcontrolv1.PriorityLevelConfigurationNameCatchAll,
			flowcontrolv1.PriorityLevelConfigurationSpec{
				Type: flowcontrolv1.PriorityLevelEnablementLimited,
				Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
					NominalConcurrencyShares: ptr.To(int32(5)), LendablePercent: ptr.To(int32(0)),
					LimitResponse: flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject},
				},
			})},
		{"flowschemas", flowSchema("exempt", 1, nil, "system:masters")},
		{"flowschemas", flowSchema(flowcontrolv1.FlowSchemaNameCatchAll, 10_000,
			&flowcontrolv1.FlowDistinguisherMethod{Type: flowcontrolv1.FlowDistinguisherMethodByUserType},
			"system:unauthenticated", "system:authenticated")},
	}...)
	return all
})

// serverServiceObjects returns the service of the API server, its endpoints and its endpoint slice.
func serverServiceObjects() []clusterObject {
	meta := func(labels map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: serverService, Labels: labels}
	}
	service := &corev1.Service{
		ObjectMeta: meta(map[string]string{"component": "apiserver", "provider": "kubernetes"}),
		Spec: corev1.ServiceSpec{
			ClusterIP: rules.ClusterIP(0), SessionAffinity: corev1.ServiceAffinityNone, Type: corev1.ServiceTypeClusterIP,
			Ports: []corev1.ServicePort{{
				Name: "https", Protocol: corev1.ProtocolTCP, Port: 443, TargetPort: intstr.FromInt32(serverPort),
			}},
		},
	}
	rules.Service.Default(service)
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  meta(map[string]string{discoveryv1.LabelServiceName: serverService}),
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{serverAddress}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
		}},
		Ports: []discoveryv1.EndpointPort{{
			Name: ptr.To("https"), Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To(int32(serverPort)),
		}},
	}
	slice.Generation = 1
	return []clusterObject{
		{"services", service},
		//lint:ignore SA1019 it is served
		{"endpoints", &corev1.Endpoints{
			ObjectMeta: meta(map[string]string{discoveryv1.LabelSkipMirror: "true"}),
			//lint:ignore SA1019 it is served
			Subsets: []corev1.EndpointSubset{{
				Addresses: []corev1.EndpointAddress{{IP: serverAddress}},
				Ports:     []corev1.EndpointPort{{Name: "https", Port: serverPort, Protocol: corev1.ProtocolTCP}},
			}},
		}},
		{"endpointslices", slice},
	}
}

func systemClass(name, description string) Object {
	value, _ := rules.SystemPriority(name)
	return &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1}, Value: value, Description: description,
		PreemptionPolicy: ptr.To(corev1.PreemptLowerPriority),
	}
}

// autoUpdate has the annotation of the flow control objects that the server keeps up to date.
var autoUpdate = map[string]string{flowcontrolv1.AutoUpdateAnnotationKey: "true"}

func priorityLevel(name string, spec flowcontrolv1.PriorityLevelConfigurationSpec) Object {
	return &flowcontrolv1.PriorityLevelConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: autoUpdate, Generation: 1}, Spec: spec,
	}
}

// flowSchema returns a flow schema for all requests of groups. Its priority level has the same name.
func flowSchema(name string, precedence int32, by *flowcontrolv1.FlowDistinguisherMethod, groups ...string) Object {
	any := []string{flowcontrolv1.VerbAll}
	rule := flowcontrolv1.PolicyRulesWithSubjects{
		ResourceRules: []flowcontrolv1.ResourcePolicyRule{{
			Verbs: any, APIGroups: any, Resources: any, Namespaces: any, ClusterScope: true,
		}},
		NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: any, NonResourceURLs: any}},
	}
	for _, g := range groups {
		rule.Subjects = append(rule.Subjects, flowcontrolv1.Subject{
			Kind: flowcontrolv1.SubjectKindGroup, Group: &flowcontrolv1.GroupSubject{Name: g},
		})
	}
	return &flowcontrolv1.FlowSchema{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: autoUpdate, Generation: 1},
		Spec: flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: name},
			MatchingPrecedence:         precedence, DistinguisherMethod: by,
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{rule},
		},
		Status: flowcontrolv1.FlowSchemaStatus{Conditions: []flowcontrolv1.FlowSchemaCondition{{
			Type: flowcontrolv1.FlowSchemaConditionDangling, Status: flowcontrolv1.ConditionFalse, Reason: "Found",
			Message: fmt.Sprintf("This FlowSchema references the PriorityLevelConfiguration object named %q and it exists", name),
		}}},
	}
}
