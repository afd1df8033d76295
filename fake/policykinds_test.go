package fake_test

import (
	"context"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
)

var podRules = []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
	Operations: []admissionv1.OperationType{admissionv1.Create},
	Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
}}}

func validatingPolicy(name string) *admissionv1.ValidatingAdmissionPolicy {
	return &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: podRules},
			Validations:      []admissionv1.Validation{{Expression: "true"}},
		},
	}
}

func mutatingPolicy(name string) *admissionv1beta1.MutatingAdmissionPolicy {
	return &admissionv1beta1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1beta1.MutatingAdmissionPolicySpec{
			MatchConstraints:   &admissionv1beta1.MatchResources{ResourceRules: []admissionv1beta1.NamedRuleWithOperations{admissionv1beta1.NamedRuleWithOperations(podRules[0])}},
			Mutations:          []admissionv1beta1.Mutation{{PatchType: "JSONPatch", JSONPatch: &admissionv1beta1.JSONPatch{Expression: "[]"}}},
			ReinvocationPolicy: admissionv1beta1.NeverReinvocationPolicy,
		},
	}
}

// TestPolicyGenerations has what counts as a change of a policy.
func TestPolicyGenerations(t *testing.T) {
	ctx := t.Context()
	_, c := newServer(t)
	policies := c.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	p := validatingPolicy("a")
	p.Status.ObservedGeneration = 7
	p = testcheck.Must(policies.Create(ctx, p, metav1.CreateOptions{}))
	if p.Generation != 1 || p.Status.ObservedGeneration != 0 || *p.Spec.FailurePolicy != admissionv1.Fail || *p.Spec.MatchConstraints.ResourceRules[0].Scope != "*" {
		t.Errorf("created: %+v", p)
	}
	p.Labels = map[string]string{"a": "b"}
	if p = testcheck.Must(policies.Update(ctx, p, metav1.UpdateOptions{})); p.Generation != 1 {
		t.Errorf("a label: generation %d", p.Generation)
	}
	p.Spec.Validations[0].Message = "no"
	if p = testcheck.Must(policies.Update(ctx, p, metav1.UpdateOptions{})); p.Generation != 2 {
		t.Errorf("a message: generation %d", p.Generation)
	}
	p.Status = admissionv1.ValidatingAdmissionPolicyStatus{ObservedGeneration: 2, TypeChecking: &admissionv1.TypeChecking{}}
	p.Labels, p.Spec.Validations = nil, nil
	p = testcheck.Must(policies.UpdateStatus(ctx, p, metav1.UpdateOptions{}))
	if p.Generation != 2 || p.Status.ObservedGeneration != 2 || p.Labels == nil || len(p.Spec.Validations) != 1 {
		t.Errorf("status: %+v", p)
	}
	p.ResourceVersion = ""
	if _, err := policies.Update(ctx, p, metav1.UpdateOptions{}); err == nil {
		t.Error("updated without a resource version")
	}
	mutating := c.AdmissionregistrationV1beta1().MutatingAdmissionPolicies()
	m := testcheck.Must(mutating.Create(ctx, mutatingPolicy("a"), metav1.CreateOptions{}))
	m.Spec.ReinvocationPolicy = admissionv1beta1.IfNeededReinvocationPolicy
	if m = testcheck.Must(mutating.Update(ctx, m, metav1.UpdateOptions{})); m.Generation != 2 || *m.Spec.FailurePolicy != admissionv1beta1.Fail {
		t.Errorf("mutating: %+v", m)
	}
}

// TestStaticNamesWarn has the names of policies that are read from files.
func TestStaticNamesWarn(t *testing.T) {
	_, c := newServer(t)
	for _, resource := range []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings", "validatingwebhookconfigurations"} {
		client, _ := c.Resource(schema.GroupVersionResource{Group: admissionv1.GroupName, Version: "v1", Resource: resource}, "")
		obj := client.New()
		switch o := obj.(type) {
		case *admissionv1.ValidatingAdmissionPolicy:
			*o = *validatingPolicy("")
		case *admissionv1.ValidatingAdmissionPolicyBinding:
			o.Spec = admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "a", ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}
		}
		obj.SetName("a.static.k8s.io")
		done := testcheck.Must(client.Create(t.Context(), obj, metav1.CreateOptions{}))
		want := `metadata.name: names ending with ".static.k8s.io" are reserved for static manifest-based configurations and cannot be managed via the API`
		if len(done.Warnings) != 1 || done.Warnings[0] != want {
			t.Errorf("%s: got %q", resource, done.Warnings)
		}
	}
}

// TestUpdatesMayKeepWhatIsStored updates webhooks that were stored by an older server, in two ways: what was wrong may stay.
func TestUpdatesMayKeepWhatIsStored(t *testing.T) {
	some := admissionv1.SideEffectClassSome
	stored := func() *admissionv1.ValidatingWebhookConfiguration {
		hook := admissionv1.ValidatingWebhook{
			Name: "a.example.com", SideEffects: &some, AdmissionReviewVersions: []string{"v2"}, ClientConfig: admissionv1.WebhookClientConfig{URL: ptr.To("https://a")},
			ObjectSelector:  &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In", Values: []string{"b c"}}}},
			MatchConditions: []admissionv1.MatchCondition{{Name: "a b", Expression: "true"}},
		}
		return &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "old"}, Webhooks: []admissionv1.ValidatingWebhook{hook, hook}}
	}
	for _, tt := range []struct {
		name   string
		change func(*admissionv1.ValidatingWebhookConfiguration)
		want   string // in the error
	}{
		{name: "a label", change: func(c *admissionv1.ValidatingWebhookConfiguration) { c.Labels = map[string]string{"a": "b"} }},
		{
			name: "another condition",
			change: func(c *admissionv1.ValidatingWebhookConfiguration) {
				c.Webhooks[1].MatchConditions[0].Expression = "false"
			},
			want: `webhooks[0].matchConditions[0].name: Invalid value: "a b"`,
		},
		{
			name: "other side effects",
			change: func(c *admissionv1.ValidatingWebhookConfiguration) {
				c.Webhooks[0].SideEffects = ptr.To(admissionv1.SideEffectClass("Other"))
			},
			want: `webhooks[0].sideEffects: Unsupported value: "Other": supported values: "None", "NoneOnDryRun", "Some", "Unknown"`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, c := newServer(t)
			testcheck.NoError(t, s.Add(stored()))
			hooks := c.AdmissionregistrationV1().ValidatingWebhookConfigurations()
			now := testcheck.Must(hooks.Get(t.Context(), "old", metav1.GetOptions{}))
			tt.change(now)
			_, err := hooks.Update(t.Context(), now, metav1.UpdateOptions{})
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
	_, c := newServer(t)
	if _, err := c.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), stored(), metav1.CreateOptions{}); err == nil {
		t.Error("created")
	}
}

// TestParametersMustBeReadable has users that write policies and bindings with parameters.
func TestParametersMustBeReadable(t *testing.T) {
	const user = "&{ann  [system:authenticated] map[]}"
	for _, tt := range []struct {
		name  string
		grant *rbacv1.PolicyRule
		write func(ctx context.Context, c *fake.Clientset) error
		want  string
	}{
		{
			name: "a kind", write: writeParamKind,
			want: `ValidatingAdmissionPolicy.admissionregistration.k8s.io "a" is invalid: spec.paramKind: Forbidden: user ` + user +
				` must have "get" permission on all objects of the referenced paramKind (kind=ConfigMap, apiVersion=v1)`,
		},
		{name: "a kind that may be read", write: writeParamKind, grant: &rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}},
		{
			name: "a reference", write: writeParamRef,
			want: `ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io "a" is invalid: spec.paramRef: Forbidden: unable to get policy a to determine minimum ` +
				`required permissions and user ` + user + ` does not have "get" permission for all groups, versions and resources`,
		},
		{name: "a reference that may be read", write: writeParamRef, grant: &rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get"}}},
		{
			name: "a mutating policy", write: func(ctx context.Context, c *fake.Clientset) error {
				p := mutatingPolicy("a")
				p.Spec.ParamKind = &admissionv1beta1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
				_, err := c.AdmissionregistrationV1beta1().MutatingAdmissionPolicies().Create(ctx, p, metav1.CreateOptions{})
				return err
			},
			want: `MutatingAdmissionPolicy.admissionregistration.k8s.io "a" is invalid: spec.paramKind: Forbidden: user ` + user +
				` must have "get" permission on all objects of the referenced paramKind (kind=ConfigMap, apiVersion=v1)`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newAccessWorld(t)
			w.grant("ann", "", rbacv1.PolicyRule{
				APIGroups: []string{admissionv1.GroupName}, Verbs: []string{"create"},
				Resources: []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingadmissionpolicies"},
			})
			if tt.grant != nil {
				rule := *tt.grant
				if rule.Resources[0] == "*" {
					w.grantAll("ann", rule)
				} else {
					w.grant("ann", "", rule)
				}
			}
			got := ""
			if err := tt.write(t.Context(), w.as("ann")); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if err := tt.write(t.Context(), w.admin); tt.want != "" && err != nil {
				t.Errorf("the administrator: %v", err)
			}
		})
	}
}

func writeParamKind(ctx context.Context, c *fake.Clientset) error {
	p := validatingPolicy("a")
	p.Spec.ParamKind = &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
	_, err := c.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(ctx, p, metav1.CreateOptions{})
	return err
}

func writeParamRef(ctx context.Context, c *fake.Clientset) error {
	b := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: "a", ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		ParamRef: &admissionv1.ParamRef{Name: "b", ParameterNotFoundAction: ptr.To(admissionv1.DenyAction)},
	}}
	_, err := c.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(ctx, b, metav1.CreateOptions{})
	return err
}

// grantAll binds a cluster role with a rule for all resources.
func (w *accessWorld) grantAll(user string, rule rbacv1.PolicyRule) {
	w.t.Helper()
	_, err := w.admin.RbacV1().ClusterRoles().Create(w.t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Rules: []rbacv1.PolicyRule{rule}}, metav1.CreateOptions{})
	testcheck.NoError(w.t, err)
	_, err = w.admin.RbacV1().ClusterRoleBindings().Create(w.t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "all"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "all"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	}, metav1.CreateOptions{})
	testcheck.NoError(w.t, err)
}
