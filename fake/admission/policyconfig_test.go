package admission_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/fake"
)

// TestExpressionsAreCompiled has policies and webhooks that will be stored, and the errors of their expressions.
func TestExpressionsAreCompiled(t *testing.T) {
	const webhook = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: hooks}
webhooks:
- name: a.example.com
  clientConfig: {url: "https://localhost"}
  sideEffects: None
  admissionReviewVersions: [v1]
  matchConditions: [{name: a, expression: %}]
`
	const undeclared = "compilation failed: ERROR: <input>:1:1: undeclared reference to 'objekt' (in container '')\n | objekt\n | ^"
	first := func(text string) string { return documents(text)[0] }
	for _, tt := range []struct {
		name, object, old string
		want              []string
	}{
		{name: "valid", object: first(policyOf("  variables: [{name: a, expression: object}]\n  validations: [{expression: variables.a != null}]"))},
		{
			name: "undeclared", object: first(policyOf("  validations: [{expression: objekt}]")),
			want: []string{`spec.validations[0].expression: Invalid value: "objekt": ` + undeclared},
		},
		{
			name: "type", object: first(policyOf("  validations: [{expression: '1', messageExpression: 'true'}]")),
			want: []string{
				`spec.validations[0].expression: Invalid value: "1": must evaluate to bool but got int`,
				`spec.validations[0].messageExpression: Invalid value: "true": must evaluate to string but got bool`,
			},
		},
		{
			name: "no authorizer in messages", object: first(policyOf("  validations: [{expression: 'true', messageExpression: string(authorizer)}]")),
			want: []string{`spec.validations[0].messageExpression: Invalid value: "string(authorizer)": compilation failed: ERROR: <input>:1:8: undeclared reference to 'authorizer' (in container '')
 | string(authorizer)
 | .......^`},
		},
		{
			name: "params need a kind", object: first(policyOf("  matchConditions: [{name: a, expression: params == null}]\n  validations: [{expression: 'true'}]")),
			want: []string{`spec.matchConditions[0].expression: Invalid value: "params == null": compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')
 | params == null
 | ^`},
		},
		{name: "params", object: first(policyOf("  paramKind: {apiVersion: v1, kind: ConfigMap}\n  matchConditions: [{name: a, expression: params == null}]\n  validations: [{expression: 'true'}]"))},
		{
			name: "audit annotation", object: first(policyOf("  auditAnnotations: [{key: a, valueExpression: '1'}]")),
			want: []string{`spec.auditAnnotations[0].valueExpression: Invalid value: "1": must evaluate to one of [string null_type] but got int`},
		},
		{
			name: "variable", object: first(policyOf("  variables: [{name: a, expression: objekt}]\n  validations: [{expression: 'true'}]")),
			want: []string{`spec.variables[0].expression: Invalid value: "objekt": ` + undeclared},
		},
		{name: "a condition that an update leaves", object: strings.Replace(webhook, "%", "objekt", 1), old: strings.Replace(webhook, "%", "objekt", 1)},
		{
			name: "a condition of a webhook", object: strings.Replace(webhook, "%", "objekt", 1), old: strings.Replace(webhook, "%", "'true'", 1),
			want: []string{`webhooks[0].matchConditions[0].expression: Invalid value: "objekt": ` + undeclared},
		},
		{name: "configuration", object: first(mutation("a", "Never", apply(`Object{}`)))},
		{
			name: "not a configuration", object: first(mutation("a", "Never", apply(`1`))),
			want: []string{`spec.mutations[0].applyConfiguration.expression: Invalid value: "1": must evaluate to Object but got int`},
		},
		{name: "JSON patch", object: first(mutation("a", "Never", jsonPatch(`[JSONPatch{op: "remove", path: "/data"}]`)))},
		{
			name: "not a JSON patch", object: first(mutation("a", "Never", jsonPatch(`Object{}`))),
			want: []string{`spec.mutations[0].jsonPatch.expression: Invalid value: "Object{}": must evaluate to list(JSONPatch) but got Object`},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, fake.Config{})
			_, obj := w.parse(tt.object)
			var old runtime.Object
			if tt.old != "" {
				_, old = w.parse(tt.old)
			}
			var got []string
			for _, err := range w.server.Admitter().ValidateConfiguration(obj, old) {
				got = append(got, err.Error())
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}
