package admission_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/volsim/volsim/fake"
)

// mutation returns a mutating policy for pods and config maps, and its binding. Lines of spec are indented.
func mutation(name, reinvocation, spec string) string {
	return `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: ` + name + `}
spec:
  reinvocationPolicy: ` + reinvocation + `
  matchConstraints:
    resourceRules: [{operations: [CREATE, UPDATE], apiGroups: ["*"], apiVersions: ["*"], resources: [configmaps, pods, things]}]
` + spec + `
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: ` + name + `}
spec: {policyName: ` + name + `}
---
`
}

func apply(expression string) string {
	return "  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: '" + strings.ReplaceAll(expression, "'", "''") + "'}}]"
}

func jsonPatch(expression string) string {
	return "  mutations: [{patchType: JSONPatch, jsonPatch: {expression: '" + strings.ReplaceAll(expression, "'", "''") + "'}}]"
}

func TestMutatingPolicyChangesConfigMaps(t *testing.T) {
	for _, tt := range []struct {
		name, stored string
		want         map[string]string
		err          string
	}{
		{name: "configuration", stored: mutation("a", "Never", apply(`Object{data: {"size": "4"}}`)), want: map[string]string{"size": "4"}},
		{
			name:   "JSON patch",
			stored: mutation("a", "Never", jsonPatch(`[JSONPatch{op: "add", path: "/data/seen", value: object.data.size + "!"}, JSONPatch{op: "remove", path: "/data/size"}]`)),
			want:   map[string]string{"seen": "3!"},
		},
		{
			name:   "a JSON patch whose test fails",
			stored: mutation("a", "Never", jsonPatch(`[JSONPatch{op: "test", path: "/data/size", value: "4"}, JSONPatch{op: "remove", path: "/data/size"}]`)),
			want:   map[string]string{"size": "3"},
		},
		{
			name: "several mutations", stored: mutation("a", "Never", `  mutations:
  - {patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{data: {"size": "4"}}'}}
  - {patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{data: {"seen": object.data.size}}'}}`),
			want: map[string]string{"size": "4", "seen": "4"},
		},
		{
			name:   "policies in the order of their names",
			stored: mutation("b", "Never", apply(`Object{data: {"size": object.data.size + "b"}}`)) + mutation("a", "Never", apply(`Object{data: {"size": object.data.size + "a"}}`)),
			want:   map[string]string{"size": "3ab"},
		},
		{
			name:   "reinvocation",
			stored: mutation("a", "IfNeeded", apply(`Object{data: {"size": object.data.size + "a"}}`)) + mutation("b", "Never", apply(`Object{data: {"size": object.data.size + "b"}}`)),
			want:   map[string]string{"size": "3aba"},
		},
		{
			name: "variables and match conditions",
			stored: mutation("a", "Never", "  variables: [{name: size, expression: int(object.data.size)}]\n  matchConditions: [{name: few, expression: int(object.data.size) < 4}]\n"+
				apply(`Object{data: {"size": string(variables.size + 1)}}`)),
			want: map[string]string{"size": "4"},
		},
		{
			name:   "a match condition that is false",
			stored: mutation("a", "Never", "  matchConditions: [{name: few, expression: int(object.data.size) < 3}]\n"+apply(`Object{data: {"size": "4"}}`)),
			want:   map[string]string{"size": "3"},
		},
		{
			name: "an error, Fail", stored: mutation("a", "Never", apply(`Object{data: {"size": object.data.none}}`)),
			err: `Invalid: policy 'a' with binding 'a' denied request: expression 'Object{data: {"size": object.data.none}}' resulted in error: no such key: none`,
		},
		{
			name: "an error, Ignore", stored: mutation("a", "Never", "  failurePolicy: Ignore\n"+apply(`Object{data: {"size": object.data.none}}`)),
			want: map[string]string{"size": "3"},
		},
		{
			name: "an unknown field", stored: mutation("a", "Never", apply(`Object{colour: "red"}`)),
			err: `Invalid: policy 'a' with binding 'a' denied request: error applying patch: failed to convert patch object to typed object: .colour: field not declared in schema`,
		},
		{
			name: "an atomic list", stored: mutation("a", "Never", apply(`Object{metadata: Object.metadata{ownerReferences: [Object.metadata.ownerReferences{uid: "u"}]}}`)),
			err: `Invalid: policy 'a' with binding 'a' denied request: error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .metadata.ownerReferences[0]`,
		},
		{
			name: "authorizer", stored: mutation("a", "Never", apply(`Object{data: {"size": string(authorizer.requestResource.check("delete").allowed())}}`)),
			want: map[string]string{"size": "true"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, fake.Config{})
			w.store(tt.stored)
			got := w.ask(request{object: configMap})
			if got.text() != tt.err {
				t.Fatalf("got  %s\nwant %s", got.text(), tt.err)
			}
			if tt.err != "" {
				if !apierrors.IsInvalid(got.err) {
					t.Errorf("got %#v", got.err)
				}
				return
			}
			if d := cmp.Diff(tt.want, got.object.(*corev1.ConfigMap).Data); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// TestMutatingPolicyAddsSidecar adds a container, in both kinds of patches.
func TestMutatingPolicyAddsSidecar(t *testing.T) {
	for _, tt := range []struct{ name, spec string }{
		{"configuration", apply(`Object{spec: Object.spec{containers: [Object.spec.containers{name: "mesh", image: "mesh:1"}]}}`)},
		{"JSON patch", jsonPatch(`[JSONPatch{op: "add", path: "/spec/containers/-", value: Object.spec.containers{name: "mesh", image: "mesh:1"}}]`)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, fake.Config{})
			w.store(mutation("a", "Never", tt.spec))
			got := w.ask(request{object: "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: main, image: nginx}]}}"})
			if got.err != nil {
				t.Fatal(got.err)
			}
			pod := got.object.(*corev1.Pod)
			if len(pod.Spec.Containers) != 2 || pod.Spec.Containers[0].Image != "nginx" {
				t.Fatalf("got %+v", pod.Spec)
			}
			if c := pod.Spec.Containers[1]; c.Name != "mesh" || c.Image != "mesh:1" || c.TerminationMessagePath != corev1.TerminationMessagePathDefault {
				t.Errorf("got %+v", c)
			}
		})
	}
}

// TestMutatingPolicyLeavesTheArgument checks that a request's object is not changed in place.
func TestMutatingPolicyLeavesTheArgument(t *testing.T) {
	w := newWorld(t, fake.Config{})
	w.store(mutation("a", "Never", apply(`Object{metadata: Object.metadata{labels: {"tier": "db"}}, data: {"size": "4"}}`)))
	client, obj := w.parse(configMap)
	sent := obj.DeepCopyObject()
	r := requestOf(client, obj)
	if err := w.server.Admitter().Mutate(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(sent, obj); d != "" {
		t.Errorf("changed in place (-sent +now):\n%s", d)
	}
	if got := r.Object.(*corev1.ConfigMap); got.Data["size"] != "4" || got.Labels["tier"] != "db" {
		t.Errorf("got %+v", got)
	}
}

// TestPoliciesOfCustomResources has a definition without a schema, as objects and as parameters.
func TestPoliciesOfCustomResources(t *testing.T) {
	w := newWorld(t, fake.Config{})
	w.server.Install(fake.CustomKind{
		Group: "example.com", Versions: []string{"v1"}, Resource: "things", Singular: "thing", Kind: "Thing", ListKind: "ThingList",
		Namespaced: true,
	})
	w.store("{apiVersion: example.com/v1, kind: Thing, metadata: {name: limit}, spec: {size: 5}}")
	w.store(mutation("a", "Never", apply(`Object{spec: Object.spec{size: object.spec.size + 1, big: object.spec.size > 2}}`)))
	w.store(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: sizes}
spec:
  paramKind: {apiVersion: example.com/v1, kind: Thing}
  matchConstraints:
    resourceRules: [{operations: [CREATE], apiGroups: [example.com], apiVersions: [v1], resources: [things]}]
  validations: [{expression: object.spec.size <= params.spec.size, messageExpression: "string(object.spec.size) + object.apiVersion"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: binding}
spec: {policyName: sizes, validationActions: [Deny], paramRef: {name: limit, parameterNotFoundAction: Deny}}
`)
	got := w.ask(request{object: "{apiVersion: example.com/v1, kind: Thing, metadata: {name: a}, spec: {size: 4}}"})
	if got.err != nil {
		t.Fatal(got.err)
	}
	want := map[string]any{"spec": map[string]any{"size": int64(5), "big": true}}
	if d := cmp.Diff(want, got.object.(*fake.CustomObject).Content); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	got = w.ask(request{object: "{apiVersion: example.com/v1, kind: Thing, metadata: {name: b}, spec: {size: 5}}"})
	wantErr := `Invalid: things.example.com "b" is forbidden: ValidatingAdmissionPolicy 'sizes' with binding 'binding' denied request: 6example.com/v1`
	if got.text() != wantErr {
		t.Errorf("got  %s\nwant %s", got.text(), wantErr)
	}
}

// TestMutationThatChangesNothing admits the request.
func TestMutationThatChangesNothing(t *testing.T) {
	w := newWorld(t, fake.Config{})
	w.store(mutation("a", "IfNeeded", apply(`Object{data: {"size": object.data.size}}`)))
	got := w.ask(request{object: configMap})
	if got.err != nil || got.object.(*corev1.ConfigMap).Data["size"] != "3" {
		t.Errorf("got %+v, %v", got.object, got.err)
	}
}
