package admissiondiff

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/apis/admissionregistration"
	_ "k8s.io/kubernetes/pkg/apis/admissionregistration/install"
	"k8s.io/kubernetes/pkg/apis/admissionregistration/validation"
	"pgregory.net/rapid"

	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

// maybe sets a field to one of some values, or leaves it out.
func maybe(t *rapid.T, in m, name string, values ...any) {
	if i := rapid.IntRange(0, len(values)).Draw(t, name); i > 0 {
		in[name] = values[i-1]
	}
}

// list returns up to two of some values.
func list(t *rapid.T, label string, values ...any) l {
	var out l
	for range rapid.IntRange(0, 3).Draw(t, label) {
		out = append(out, values[rapid.IntRange(0, len(values)-1).Draw(t, label)])
	}
	return out
}

var (
	badSelector  = m{"matchLabels": m{"a b": "c"}}
	badSelector2 = m{"matchExpressions": l{m{"key": "a", "operator": "In"}}}
	goodSelector = m{"matchLabels": m{"a": "b"}}
	long         = strings.Repeat("x", 6000)
)

// badRule returns a rule of which anything may be wrong.
func badRule(t *rapid.T, named bool) m {
	r := m{
		"operations": list(t, "operations", "CREATE", "UPDATE", "DELETE", "*", "PATCH"), "apiGroups": list(t, "groups", "", "apps", "*"),
		"apiVersions": list(t, "versions", "v1", "", "*"),
		"resources":   list(t, "resources", "pods", "pods/*", "pods/status", "*/status", "*/*", "*", "", "a/b/c"),
	}
	maybe(t, r, "scope", "*", "Cluster", "Other")
	if named {
		r["resourceNames"] = list(t, "names", "a", "b", "", "a/b", "..")
	}
	return r
}

func badMatch(t *rapid.T) m {
	out := m{}
	maybe(t, out, "matchPolicy", "Exact", "Other")
	maybe(t, out, "namespaceSelector", goodSelector, badSelector, badSelector2)
	maybe(t, out, "objectSelector", goodSelector, badSelector, badSelector2)
	for _, name := range []string{"resourceRules", "excludeResourceRules"} {
		var rules l
		for range rapid.IntRange(0, 2).Draw(t, name) {
			rules = append(rules, badRule(t, true))
		}
		out[name] = rules
	}
	return out
}

var badExpressions = []any{"true", " ", "", "'text'", "undeclared", "1 +", "params != null", "variables.a", "authorizer != null", "object.x"}

func badConditions(t *rapid.T) l {
	var out l
	n := rapid.IntRange(0, 3).Draw(t, "conditions")
	if n == 3 && chance(t, 5, "many") {
		n = 65
	}
	for range n {
		c := m{"name": "", "expression": ""}
		maybe(t, c, "name", "a", "b", "a b", "example.com/c", "a/b/c")
		maybe(t, c, "expression", badExpressions...)
		out = append(out, c)
	}
	return out
}

func badVariables(t *rapid.T) l {
	var out l
	for range rapid.IntRange(0, 2).Draw(t, "variables") {
		v := m{"name": "", "expression": ""}
		maybe(t, v, "name", "a", "b", " ", "1a", "namespace", "a.b")
		maybe(t, v, "expression", badExpressions...)
		out = append(out, v)
	}
	return out
}

func badParamKind(t *rapid.T, spec m) {
	if chance(t, 1, "no kind") {
		return
	}
	k := m{}
	maybe(t, k, "apiVersion", "v1", "example.com/v1", "A/v1", "a/", "/", "a/b/c", "example.com/V1", "")
	maybe(t, k, "kind", "ConfigMap", "", "A b", "-")
	spec["paramKind"] = k
}

func badParamRef(t *rapid.T, spec m) {
	if chance(t, 1, "no reference") {
		return
	}
	r := m{}
	maybe(t, r, "name", "a", "a/b", "..")
	maybe(t, r, "namespace", "a", "A B")
	maybe(t, r, "selector", goodSelector, badSelector, m{})
	maybe(t, r, "parameterNotFoundAction", "Deny", "Allow", "Other", "")
	spec["paramRef"] = r
}

func badValidating(t *rapid.T) *unstructured.Unstructured {
	spec := m{"matchConditions": badConditions(t), "variables": badVariables(t)}
	maybe(t, spec, "failurePolicy", "Fail", "Ignore", "Other")
	badParamKind(t, spec)
	if !chance(t, 5, "no constraints") {
		spec["matchConstraints"] = badMatch(t)
	}
	var checks, annotations l
	for range rapid.IntRange(0, 2).Draw(t, "validations") {
		v := m{"expression": ""}
		maybe(t, v, "expression", badExpressions...)
		maybe(t, v, "message", "text", " ", "two\nlines")
		maybe(t, v, "messageExpression", badExpressions...)
		maybe(t, v, "reason", "Invalid", "Forbidden", "Other", "")
		checks = append(checks, v)
	}
	n := rapid.IntRange(0, 2).Draw(t, "annotations")
	if n == 2 && chance(t, 5, "many annotations") {
		n = 21
	}
	for range n {
		a := m{"key": "", "valueExpression": ""}
		maybe(t, a, "key", "a", "b", "a/b", "a b")
		maybe(t, a, "valueExpression", append([]any{"'" + long + "'", "null"}, badExpressions...)...)
		annotations = append(annotations, a)
	}
	spec["validations"], spec["auditAnnotations"] = checks, annotations
	return object("ValidatingAdmissionPolicy", "p", spec)
}

func badMutating(t *rapid.T) *unstructured.Unstructured {
	spec := m{"matchConditions": badConditions(t), "variables": badVariables(t)}
	maybe(t, spec, "failurePolicy", "Fail", "Ignore", "Other")
	maybe(t, spec, "reinvocationPolicy", "Never", "IfNeeded", "Other")
	badParamKind(t, spec)
	if !chance(t, 5, "no constraints") {
		spec["matchConstraints"] = badMatch(t)
	}
	var all l
	for range rapid.IntRange(0, 2).Draw(t, "mutations") {
		v := m{"patchType": ""}
		maybe(t, v, "patchType", "JSONPatch", "ApplyConfiguration", "Other")
		for _, name := range []string{"jsonPatch", "applyConfiguration"} {
			if chance(t, 1, name) {
				inner := m{}
				maybe(t, inner, "expression", append([]any{"Object{}", "[JSONPatch{op: \"test\", path: \"/a\"}]"}, badExpressions...)...)
				v[name] = inner
			}
		}
		all = append(all, v)
	}
	spec["mutations"] = all
	return object("MutatingAdmissionPolicy", "p", spec)
}

func badBinding(t *rapid.T, kind string) *unstructured.Unstructured {
	spec := m{}
	maybe(t, spec, "policyName", "a", "A b", "")
	badParamRef(t, spec)
	if chance(t, 1, "matches") {
		spec["matchResources"] = badMatch(t)
	}
	if kind == "ValidatingAdmissionPolicyBinding" {
		spec["validationActions"] = list(t, "actions", "Deny", "Warn", "Audit", "Other")
	}
	return object(kind, "b", spec)
}

func badWebhooks(t *rapid.T, kind string) *unstructured.Unstructured {
	var hooks l
	for range rapid.IntRange(0, 2).Draw(t, "webhooks") {
		h := m{"name": "", "clientConfig": m{}, "sideEffects": nil, "admissionReviewVersions": list(t, "versions", "v1", "v1beta1", "v2", "A b")}
		maybe(t, h, "name", "a.example.com", "b.example.com", "a", "A.b.c")
		maybe(t, h, "sideEffects", "None", "NoneOnDryRun", "Some", "Unknown", "Other")
		maybe(t, h, "failurePolicy", "Fail", "Other")
		maybe(t, h, "matchPolicy", "Exact", "Other")
		maybe(t, h, "timeoutSeconds", int64(0), int64(30), int64(31))
		maybe(t, h, "namespaceSelector", goodSelector, badSelector)
		maybe(t, h, "objectSelector", goodSelector, badSelector2)
		path := []any{"/", "", "//", "a", "/a/b", "/a//b", "/A b/", "/a/"}
		maybe(t, h, "clientConfig", m{"url": "https://a"}, m{"url": "http://u@/a?b#c"}, m{"url": "https://%zz"},
			m{"service": m{"name": "a", "namespace": "b", "path": path[rapid.IntRange(0, len(path)-1).Draw(t, "path")]}},
			m{"service": m{"name": "", "namespace": "", "port": int64(70000)}}, m{"url": "https://a", "service": m{"name": "a", "namespace": "b"}})
		var rules l
		for range rapid.IntRange(0, 2).Draw(t, "rules") {
			rules = append(rules, badRule(t, false))
		}
		h["rules"], h["matchConditions"] = rules, badConditions(t)
		if kind == "MutatingWebhookConfiguration" {
			maybe(t, h, "reinvocationPolicy", "Never", "Other")
		}
		hooks = append(hooks, h)
	}
	return &unstructured.Unstructured{Object: m{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": m{"name": "w"}, "webhooks": hooks,
	}}
}

var kinds = map[string]string{
	"ValidatingAdmissionPolicy": "validatingadmissionpolicies", "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
	"MutatingAdmissionPolicy": "mutatingadmissionpolicies", "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
	"ValidatingWebhookConfiguration": "validatingwebhookconfigurations", "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
}

func drawBad(t *rapid.T, kind string) *unstructured.Unstructured {
	switch {
	case kind == "ValidatingAdmissionPolicy":
		return badValidating(t)
	case kind == "MutatingAdmissionPolicy":
		return badMutating(t)
	case strings.HasSuffix(kind, "Binding"):
		return badBinding(t, kind)
	}
	return badWebhooks(t, kind)
}

// validateUpstream returns the errors of upstream's validation.
func validateUpstream(t *rapid.T, u *unstructured.Unstructured) []string {
	var errs field.ErrorList
	switch o := toInternal(t, u).(type) {
	case *admissionregistration.ValidatingAdmissionPolicy:
		errs = validation.ValidateValidatingAdmissionPolicy(o)
	case *admissionregistration.MutatingAdmissionPolicy:
		errs = validation.ValidateMutatingAdmissionPolicy(o)
	case *admissionregistration.ValidatingAdmissionPolicyBinding:
		errs = validation.ValidateValidatingAdmissionPolicyBinding(o)
	case *admissionregistration.MutatingAdmissionPolicyBinding:
		errs = validation.ValidateMutatingAdmissionPolicyBinding(o)
	case *admissionregistration.ValidatingWebhookConfiguration:
		errs = validation.ValidateValidatingWebhookConfiguration(o)
	case *admissionregistration.MutatingWebhookConfiguration:
		errs = validation.ValidateMutatingWebhookConfiguration(o)
	}
	var out []string
	for _, e := range errs {
		out = append(out, fmt.Sprintf("%s %s: %s", e.Type, e.Field, e.ErrorBody()))
	}
	return sorted(out)
}

// toInternal returns an object with defaults in upstream's internal form.
func toInternal(t *rapid.T, u *unstructured.Unstructured) runtime.Object {
	obj, err := typed(u)
	if err == nil {
		obj, err = legacyscheme.Scheme.ConvertToVersion(obj, runtime.InternalGroupVersioner)
	}
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

// sorted returns each text once, sorted.
func sorted(texts []string) []string {
	slices.Sort(texts)
	return slices.Compact(texts)
}

// validateUs returns the errors of our server: those of the write, and those of compilation.
func validateUs(t *rapid.T, server *fake.Server, u *unstructured.Unstructured) []string {
	gvr := u.GroupVersionKind().GroupVersion().WithResource(kinds[u.GetKind()])
	client, ok := server.Client(sim.DirectCaller()).Resource(gvr, "")
	if !ok {
		t.Fatal(gvr)
	}
	decode := func(u *unstructured.Unstructured) fake.Object {
		obj := client.New()
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, obj); err != nil {
			t.Fatal(err)
		}
		return obj
	}
	var out []string
	add := func(err error) {
		if status := statusOf(err); status != nil && status.Details != nil {
			for _, c := range status.Details.Causes {
				out = append(out, fmt.Sprintf("%s %s: %s", field.ErrorType(c.Type), c.Field, c.Message))
			}
		}
	}
	_, err := client.Create(t.Context(), decode(u), metav1.CreateOptions{})
	add(err)
	for _, e := range server.Admitter().ValidateConfiguration(decode(u), nil) {
		out = append(out, fmt.Sprintf("%s %s: %s", e.Type, e.Field, e.ErrorBody()))
	}
	return sorted(out)
}

// TestSameErrors compares the errors of drawn creations, most of them invalid.
func TestSameErrors(t *testing.T) {
	for kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			valid, errors := 0, 0
			rapid.Check(t, func(t *rapid.T) {
				u := drawBad(t, kind)
				want, got := validateUpstream(t, u), validateUs(t, newServer(), u)
				if d := cmp.Diff(want, got); d != "" {
					t.Fatalf("%v (-upstream +ours):\n%s", u, d)
				}
				errors += len(want)
				if len(want) == 0 {
					valid++
				}
			})
			t.Logf("%d errors, %d valid", errors, valid)
		})
	}
}
