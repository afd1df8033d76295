package admission_test

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/volsim/volsim/fake"
)

const deploymentRules = `
  matchConstraints:
    namespaceSelector: {matchLabels: {unique: "yes"}}
    resourceRules: [{operations: [CREATE, UPDATE], apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]
`

// workload returns a deployment or a replica set in a namespace.
func workload(kind, namespace string, replicas int) string {
	return fmt.Sprintf(`{apiVersion: apps/v1, kind: %s, metadata: {name: web, namespace: %s}, spec: {replicas: %d, selector: {matchLabels: {app: web}},
		template: {metadata: {labels: {app: web}}, spec: {containers: [{name: main, image: nginx}]}}}}`, kind, namespace, replicas)
}

// TestPoliciesOfUpstreamsE2E tells the stories of upstream's end-to-end tests: policies for the deployments of the
// namespaces that have a label.
//
// Upstream: test/e2e/apimachinery, validatingadmissionpolicy.go and mutatingadmissionpolicy.go.
func TestPoliciesOfUpstreamsE2E(t *testing.T) {
	type ask struct {
		object string
		denied string // in the refusal
		check  func(*appsv1.Deployment) bool
	}
	for _, tt := range []struct {
		name, kind, spec string
		asks             []ask
	}{
		{
			name: "should validate against a Deployment", kind: "Validating",
			spec: `
  validations:
  - {expression: object.spec.replicas > 1, messageExpression: "'wants replicas > 1, got ' + object.spec.replicas"}
  - {expression: "namespaceObject.metadata.name == 'marked'", message: Internal error! Other namespace should not be allowed.}`,
			asks: []ask{
				{object: workload("Deployment", "marked", 1), denied: "denied request: failed expression: object.spec.replicas > 1"},
				{object: workload("Deployment", "marked", 2)},
				{object: workload("ReplicaSet", "marked", 1)},
				{object: workload("Deployment", "default", 1)},
			},
		},
		{
			name: "should allow expressions to refer variables.", kind: "Validating",
			spec: `
  variables: [{name: replicas, expression: object.spec.replicas}, {name: oddReplicas, expression: variables.replicas % 2 == 1}]
  validations: [{expression: variables.replicas > 1}, {expression: variables.oddReplicas}]`,
			asks: []ask{
				{object: workload("Deployment", "marked", 1), denied: "denied request: failed expression: variables.replicas > 1"},
				{object: workload("Deployment", "marked", 2), denied: "denied request: failed expression: variables.oddReplicas"},
				{object: workload("Deployment", "marked", 3)},
				{object: workload("ReplicaSet", "marked", 1)},
			},
		},
		{
			name: "should mutate a Deployment with annotations", kind: "Mutating",
			spec: `
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{metadata: Object.metadata{annotations: {"mutated-by": "admission-policy"}}}'}}]`,
			asks: []ask{
				{object: workload("Deployment", "marked", 1), check: func(d *appsv1.Deployment) bool { return d.Annotations["mutated-by"] == "admission-policy" }},
				{object: workload("Deployment", "default", 1), check: func(d *appsv1.Deployment) bool { return d.Annotations == nil }},
			},
		},
		{
			name: "should mutate a Deployment", kind: "Mutating",
			spec: `
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{spec: Object.spec{replicas: 1337}}'}}]`,
			asks: []ask{
				{object: workload("Deployment", "marked", 1), check: func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 1337 }},
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, fake.Config{})
			w.store("{apiVersion: v1, kind: Namespace, metadata: {name: marked, labels: {unique: 'yes'}}}")
			policy := fmt.Sprintf("apiVersion: admissionregistration.k8s.io/v1\nkind: %sAdmissionPolicy\nmetadata: {name: policy}\nspec:%s%s", tt.kind, deploymentRules, tt.spec)
			binding := fmt.Sprintf("apiVersion: admissionregistration.k8s.io/v1\nkind: %sAdmissionPolicyBinding\nmetadata: {name: binding}\nspec:\n  policyName: policy\n", tt.kind)
			if tt.kind == "Mutating" {
				policy += "\n  reinvocationPolicy: Never"
			} else {
				binding += "  validationActions: [Deny]\n"
			}
			w.store(policy + "\n---\n" + binding)
			for i, a := range tt.asks {
				got := w.ask(request{object: strings.Replace(a.object, "name: web,", fmt.Sprintf("name: web%d,", i), 1)})
				switch {
				case a.denied == "" && got.err != nil, a.denied != "" && !strings.Contains(got.text(), a.denied):
					t.Errorf("%d: got %q, want %q", i, got.text(), a.denied)
				case a.check != nil && !a.check(got.object.(*appsv1.Deployment)):
					t.Errorf("%d: got %+v", i, got.object)
				}
			}
		})
	}
}
