package admission_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/volsim/volsim/fake"
)

// policyOf returns a validating policy for config maps, and a binding that denies. Lines of spec are indented.
func policyOf(spec string) string {
	return `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: policy}
spec:
  matchConstraints:
    resourceRules: [{operations: ["*"], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
` + spec + `
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: binding}
spec: {policyName: policy, validationActions: [Deny]}
`
}

const configMap = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {tier: web}}, data: {size: '3'}}"

const denied = `configmaps "a" is forbidden: ValidatingAdmissionPolicy 'policy' with binding 'binding' denied request: `

func TestValidatingPolicyDecides(t *testing.T) {
	for _, tt := range []struct {
		name   string
		stored string
		ask    request
		want   string
	}{
		{name: "true", stored: policyOf("  validations: [{expression: \"object.data.size == '3'\"}]")},
		{
			name: "false", stored: policyOf("  validations: [{expression: \"object.data.size == '4'\"}]"),
			want: "Invalid: " + denied + "failed expression: object.data.size == '4'",
		},
		{
			name: "message", stored: policyOf("  validations: [{expression: 'false', message: no way}]"),
			want: "Invalid: " + denied + "no way",
		},
		{
			name:   "message expression, reason",
			stored: policyOf("  validations: [{expression: 'false', message: no way, messageExpression: \"'size ' + object.data.size\", reason: Forbidden}]"),
			want:   "Forbidden: " + denied + "size 3",
		},
		{
			name:   "message expression that fails",
			stored: policyOf("  validations: [{expression: 'false', message: no way, messageExpression: string(object.data.none)}]"),
			want:   "Invalid: " + denied + "no way",
		},
		{
			name: "error, Fail", stored: policyOf("  validations: [{expression: object.data.none == ''}]"),
			want: "Invalid: " + denied + "expression 'object.data.none == ''' resulted in error: no such key: none",
		},
		{name: "error, Ignore", stored: policyOf("  failurePolicy: Ignore\n  validations: [{expression: object.data.none == ''}]")},
		{
			name: "first of two", stored: policyOf("  validations: [{expression: 'false', message: one}, {expression: 'false', message: two}]"),
			want: "Invalid: " + denied + "one",
		},
		{
			name:   "variables",
			stored: policyOf("  variables: [{name: size, expression: int(object.data.size)}, {name: odd, expression: variables.size % 2 == 1}]\n  validations: [{expression: '!variables.odd', messageExpression: 'string(variables.size)'}]"),
			want:   "Invalid: " + denied + "3",
		},
		{
			name:   "request, namespace",
			stored: policyOf("  validations: [{expression: \"request.operation == 'CREATE' && request.userInfo.username == 'admin' && namespaceObject.metadata.name == 'default' && oldObject == null\"}]"),
		},
		{
			name: "match condition that is false", stored: policyOf("  matchConditions: [{name: a, expression: 'false'}]\n  validations: [{expression: 'false'}]"),
		},
		{
			name:   "match condition with an error",
			stored: policyOf("  matchConditions: [{name: a, expression: object.data.none == ''}, {name: b, expression: 'true'}]\n  validations: [{expression: 'false'}]"),
			want:   "Invalid: " + denied + "expression 'object.data.none == ''' resulted in error: no such key: none",
		},
		{
			name:   "match condition with an error that does not count",
			stored: policyOf("  matchConditions: [{name: a, expression: object.data.none == ''}, {name: b, expression: 'false'}]\n  validations: [{expression: 'false'}]"),
		},
		{
			name:   "authorizer",
			stored: policyOf("  validations: [{expression: \"authorizer.group('apps').resource('deployments').check('create').allowed()\"}]"),
			ask:    request{user: "eve"},
			want:   "Invalid: " + denied + "failed expression: authorizer.group('apps').resource('deployments').check('create').allowed()",
		},
		{
			name: "reasons of the authorizer",
			stored: policyOf("  validations: [{expression: \"authorizer.requestResource.check('create').reason().startsWith('RBAC: allowed by ') && " +
				"authorizer.group('apps').resource('deployments').check('create').reason() == ''\"}]"),
			ask: request{user: "eve"},
		},
		{
			name:   "authorizer of a superuser",
			stored: policyOf("  validations: [{expression: \"authorizer.requestResource.check('create').allowed()\"}]"),
			ask:    request{user: "eve", groups: []string{"system:masters"}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, fake.Config{RBAC: true})
			w.store(tt.stored)
			if tt.ask.object == "" {
				tt.ask.object = configMap
			}
			if tt.ask.user == "eve" && tt.ask.groups == nil {
				w.store(editors("eve"))
			}
			if got := w.ask(tt.ask).text(); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// editors lets a user write config maps.
func editors(user string) string {
	return `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: editors}
rules: [{apiGroups: [""], resources: [configmaps], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: editors}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: editors}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ` + user + `}]
`
}

// TestMatchConstraints has a policy that denies all that it matches, and requests that it matches or not.
func TestMatchConstraints(t *testing.T) {
	const rules = "resourceRules: [{operations: ['*'], apiGroups: ['*'], apiVersions: ['*'], resources: ['*']}]"
	for _, tt := range []struct {
		name, constraints, binding string
		ask                        request
		want                       bool
	}{
		{name: "all", constraints: rules, want: true},
		{name: "operation", constraints: "resourceRules: [{operations: [UPDATE, DELETE], apiGroups: ['*'], apiVersions: ['*'], resources: ['*']}]"},
		{
			name: "update", constraints: "resourceRules: [{operations: [UPDATE], apiGroups: ['*'], apiVersions: ['*'], resources: ['*']}]",
			ask: request{operation: admissionv1.Update, object: "{apiVersion: v1, kind: ConfigMap, metadata: {name: old}}"}, want: true,
		},
		{
			name: "delete", constraints: "resourceRules: [{operations: [DELETE], apiGroups: ['*'], apiVersions: ['*'], resources: ['*']}]",
			ask: request{operation: admissionv1.Delete, object: "{apiVersion: v1, kind: ConfigMap, metadata: {name: old}}"}, want: true,
		},
		{name: "group", constraints: "resourceRules: [{operations: ['*'], apiGroups: [apps], apiVersions: ['*'], resources: ['*']}]"},
		{name: "resource", constraints: "resourceRules: [{operations: ['*'], apiGroups: ['*'], apiVersions: ['*'], resources: [secrets]}]"},
		{name: "scope", constraints: "resourceRules: [{operations: ['*'], apiGroups: ['*'], apiVersions: ['*'], resources: ['*'], scope: Cluster}]"},
		{name: "name", constraints: "resourceRules: [{operations: ['*'], apiGroups: ['*'], apiVersions: ['*'], resources: ['*'], resourceNames: [a]}]", want: true},
		{name: "other name", constraints: "resourceRules: [{operations: ['*'], apiGroups: ['*'], apiVersions: ['*'], resources: ['*'], resourceNames: [b]}]"},
		{name: "excluded", constraints: rules + "\n    excludeResourceRules: [{operations: ['*'], apiGroups: [''], apiVersions: [v1], resources: [configmaps]}]"},
		{
			name:        "excluded by name",
			constraints: rules + "\n    excludeResourceRules: [{operations: ['*'], apiGroups: [''], apiVersions: [v1], resources: [configmaps], resourceNames: [b]}]", want: true,
		},
		{name: "object selector", constraints: rules + "\n    objectSelector: {matchLabels: {tier: web}}", want: true},
		{name: "other objects", constraints: rules + "\n    objectSelector: {matchLabels: {tier: db}}"},
		{name: "namespace selector", constraints: rules + "\n    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: default}}", want: true},
		{name: "other namespaces", constraints: rules + "\n    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: other}}"},
		{
			name: "a namespace's own labels", constraints: rules + "\n    namespaceSelector: {matchLabels: {team: a}}",
			ask: request{object: "{apiVersion: v1, kind: Namespace, metadata: {name: a, labels: {team: a}}}"}, want: true,
		},
		{
			name: "cluster scope has no namespace to select", constraints: rules + "\n    namespaceSelector: {matchLabels: {team: a}}",
			ask: request{object: "{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: a}, provisioner: x}"}, want: true,
		},
		{name: "binding", constraints: rules, binding: "matchResources: {objectSelector: {matchLabels: {tier: web}}}", want: true},
		{name: "other binding", constraints: rules, binding: "matchResources: {objectSelector: {matchLabels: {tier: db}}}"},
		{
			name: "policies are not judged", constraints: rules,
			ask: request{object: policyOf("  validations: [{expression: 'true'}]")[:strings.Index(policyOf("  validations: [{expression: 'true'}]"), "\n---")]},
		},
		{
			name: "webhooks are", constraints: rules,
			ask: request{object: "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: a}}"}, want: true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, fake.Config{})
			w.store("{apiVersion: v1, kind: ConfigMap, metadata: {name: old}}")
			w.store(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: all}
spec:
  matchConstraints:
    ` + tt.constraints + `
  validations: [{expression: 'false'}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: binding}
spec:
  policyName: all
  validationActions: [Deny]
  ` + tt.binding)
			if tt.ask.object == "" {
				tt.ask.object = configMap
			}
			out := w.ask(tt.ask)
			if got := out.err != nil; got != tt.want {
				t.Errorf("denied: got %v, want %v: %v", got, tt.want, out.err)
			}
		})
	}
}

// TestParams has a policy whose parameters limit a size.
func TestParams(t *testing.T) {
	const policy = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: sizes}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints:
    resourceRules: [{operations: [CREATE], apiGroups: ["*"], apiVersions: [v1], resources: [configmaps, namespaces, storageclasses]}]
  validations:
  - expression: params == null || int(object.data.size) <= int(params.data.max)
    messageExpression: params.kind + ' ' + params.metadata.name + ' allows ' + params.data.max
---
`
	const binding = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: binding}
spec:
  policyName: sizes
  validationActions: [Deny]
  paramRef: `
	const limits = `
{apiVersion: v1, kind: ConfigMap, metadata: {name: two, labels: {limit: size}}, data: {max: '2'}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: five, labels: {limit: size}}, data: {max: '5'}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: one, namespace: kube-system}, data: {max: '1'}}
`
	const prefix = `Invalid: configmaps "a" is forbidden: ValidatingAdmissionPolicy 'sizes' with binding 'binding' denied request: `
	for _, tt := range []struct{ name, ref, object, want string }{
		{name: "by name", ref: "{name: two, parameterNotFoundAction: Deny}", want: prefix + "ConfigMap two allows 2"},
		{name: "by name, allowed", ref: "{name: five, parameterNotFoundAction: Deny}"},
		{name: "in a namespace", ref: "{name: one, namespace: kube-system, parameterNotFoundAction: Deny}", want: prefix + "ConfigMap one allows 1"},
		{name: "by selector", ref: "{selector: {matchLabels: {limit: size}}, parameterNotFoundAction: Deny}", want: prefix + "ConfigMap two allows 2"},
		{
			name: "not found, Deny", ref: "{name: none, parameterNotFoundAction: Deny}",
			want: prefix + "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction",
		},
		{name: "not found, Allow", ref: "{name: none, parameterNotFoundAction: Allow}"},
		{
			name: "a namespace's own namespace", ref: "{name: two, parameterNotFoundAction: Deny}", object: "{apiVersion: v1, kind: Namespace, metadata: {name: a}}",
			want: `Invalid: namespaces "a" is forbidden: ValidatingAdmissionPolicy 'sizes' with binding 'binding' denied request: ` +
				"failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction",
		},
		{
			name: "cluster scope", ref: "{name: two, parameterNotFoundAction: Deny}", object: "{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: a}, provisioner: x}",
			want: `Invalid: storageclasses.storage.k8s.io "a" is forbidden: ValidatingAdmissionPolicy 'sizes' with binding 'binding' denied request: ` +
				"failed to configure binding: cannot use namespaced paramRef in policy binding that matches cluster-scoped resources",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, fake.Config{})
			w.store(limits + "\n---\n" + policy + binding + tt.ref)
			if tt.object == "" {
				tt.object = configMap
			}
			got := w.ask(request{object: tt.object}).text()
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestUnknownKindOfParams(t *testing.T) {
	w := newWorld(t, fake.Config{})
	w.store(policyOf("  paramKind: {apiVersion: example.com/v1, kind: Limit}\n  validations: [{expression: 'true'}]"))
	want := `Invalid: configmaps "a" is forbidden: ValidatingAdmissionPolicy 'policy' denied request: failed to configure policy: ` +
		`failed to find resource referenced by paramKind: 'example.com/v1, Kind=Limit'`
	if got := w.ask(request{object: configMap}).text(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	w.server.Install(fake.CustomKind{
		Group: "example.com", Versions: []string{"v1"}, Resource: "limits", Singular: "limit", Kind: "Limit", ListKind: "LimitList",
	})
	if got := w.ask(request{object: configMap}).text(); got != "" {
		t.Errorf("served: got %s", got)
	}
}

// TestValidationActions has the effects of the actions of a binding.
func TestValidationActions(t *testing.T) {
	for _, tt := range []struct {
		actions  string
		want     string
		warnings []string
		audited  map[string]string
	}{
		{actions: "[Deny]", want: "Invalid: " + denied + "too small"},
		{
			actions:  "[Warn]",
			warnings: []string{"Validation failed for ValidatingAdmissionPolicy 'policy' with binding 'binding': too small"},
		},
		{
			actions: "[Audit]",
			audited: map[string]string{
				"validation.policy.admission.k8s.io/validation_failure": `[{"message":"too small","policy":"policy","binding":"binding","expressionIndex":1,"validationActions":["Audit"]}]`,
			},
		},
		{
			actions: "[Deny, Audit]", want: "Invalid: " + denied + "too small",
			audited: map[string]string{
				"validation.policy.admission.k8s.io/validation_failure": `[{"message":"too small","policy":"policy","binding":"binding","expressionIndex":1,"validationActions":["Deny","Audit"]}]`,
			},
		},
	} {
		t.Run(tt.actions, func(t *testing.T) {
			w := newWorld(t, fake.Config{})
			text := policyOf("  validations: [{expression: 'true'}, {expression: 'int(object.data.size) > 3', message: too small}]\n" +
				"  auditAnnotations: [{key: size, valueExpression: \"'of ' + object.data.size\"}, {key: none, valueExpression: 'null'}]")
			w.store(strings.Replace(text, "[Deny]", tt.actions, 1))
			got := w.ask(request{object: configMap})
			if got.text() != tt.want {
				t.Errorf("got  %s\nwant %s", got.text(), tt.want)
			}
			if d := cmp.Diff(tt.warnings, got.warnings, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("warnings (-want +got):\n%s", d)
			}
			want := map[string]string{"policy/size": "of 3"}
			for k, v := range tt.audited {
				want[k] = v
			}
			if d := cmp.Diff(want, got.audited); d != "" {
				t.Errorf("audit annotations (-want +got):\n%s", d)
			}
		})
	}
}

// TestPoliciesInTheOrderOfTheirNames has policies that warn, each with two bindings.
func TestPoliciesInTheOrderOfTheirNames(t *testing.T) {
	w := newWorld(t, fake.Config{})
	text := strings.Replace(policyOf("  validations: [{expression: 'false', message: small}]"), "[Deny]", "[Warn]", 1)
	var want []string
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		for _, binding := range []string{"1", "2"} {
			want = append(want, "Validation failed for ValidatingAdmissionPolicy '"+name+"' with binding '"+name+binding+"': small")
		}
	}
	for _, name := range []string{"d", "b", "f", "a", "e", "c"} {
		docs := documents(text)
		w.store(strings.ReplaceAll(docs[0], "name: policy", "name: "+name))
		for _, binding := range []string{"2", "1"} {
			w.store(strings.NewReplacer("policyName: policy", "policyName: "+name, "name: binding", "name: "+name+binding).Replace(docs[1]))
		}
	}
	if d := cmp.Diff(want, w.ask(request{object: configMap}).warnings); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestPoliciesCountAtOnce changes what decides: a policy, its binding, a parameter.
func TestPoliciesCountAtOnce(t *testing.T) {
	w := newWorld(t, fake.Config{})
	if w.server.Admitter().Admits() {
		t.Error("admits without a policy")
	}
	w.store(policyOf("  validations: [{expression: \"object.data.size == '4'\"}]"))
	if w.ask(request{object: configMap}).err == nil {
		t.Error("not denied")
	}
	client, policy := w.parse(documents(policyOf("  validations: [{expression: \"object.data.size == '3'\"}]"))[0])
	stored, err := client.Get(t.Context(), "policy", getOptions)
	if err != nil {
		t.Fatal(err)
	}
	policy.SetResourceVersion(stored.GetResourceVersion())
	if _, err := client.Update(t.Context(), "policy", policy, updateOptions); err != nil {
		t.Fatal(err)
	}
	if err := w.ask(request{object: configMap}).err; err != nil {
		t.Errorf("denied after the policy was changed: %v", err)
	}
	client, _ = w.parse(documents(policyOf(""))[1])
	if _, err := client.Delete(t.Context(), "binding", deleteOptions); err != nil {
		t.Fatal(err)
	}
	if w.server.Admitter().Admits() {
		t.Error("admits without a binding")
	}
}
