package admissiondiff

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	reviewv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	upstream "k8s.io/apiserver/pkg/admission"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/admission"
	"github.com/volsim/volsim/fake/crd"
	"github.com/volsim/volsim/sim"
)

// A both is one world for us and for upstream.
type both struct {
	server   *fake.Server
	client   *fake.Clientset
	upstream *plugins
	cancel   func()
}

const thingDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  names: {plural: things, singular: thing, kind: Thing, listKind: ThingList}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        x-kubernetes-preserve-unknown-fields: true
        properties:
          data: {type: object, additionalProperties: {type: string}}
          spec: {type: object, properties: {replicas: {type: integer}, max: {type: integer}}}
`

// What the users of requests may do.
const (
	writers = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: writers}
rules: [{apiGroups: ["*"], resources: ["*"], verbs: [create, update, delete]}]
`
	writersBinding = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: writers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: writers}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:authenticated"}]
`
)

// newServer returns our server, with a custom resource.
func newServer() *fake.Server {
	server := fake.NewServer(fake.Config{Now: func() time.Time { return sim.Epoch }, RBAC: true, SkipBootstrap: true, Namespaces: []string{"other"}})
	admission.Serve(server)
	crd.Serve(server)
	definition := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(thingDefinition), &definition.Object); err != nil {
		panic(err)
	}
	definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	if _, err := server.Client(sim.DirectCaller()).Dynamic().Resource(definitions).Create(context.Background(), definition, metav1.CreateOptions{}); err != nil {
		panic(err)
	}
	return server
}

// newBoth stores objects in our server, and starts upstream's plugins over them.
func newBoth(t *rapid.T, objects []*unstructured.Unstructured) *both {
	server := newServer()
	for _, doc := range []string{writers, writersBinding} {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
			t.Fatal(err)
		}
		if err := server.Add(u); err != nil {
			t.Fatal(err)
		}
	}
	b := &both{server: server, client: server.Client(sim.DirectCaller())}
	var typed, custom []runtime.Object
	for _, obj := range server.List("namespaces") {
		typed = append(typed, obj.DeepCopyObject())
	}
	policies := server.Client(sim.DirectCaller()).Dynamic()
	for _, u := range objects {
		gvk := u.GroupVersionKind()
		gvr := gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind) + "s")
		if strings.HasSuffix(gvk.Kind, "Policy") {
			gvr.Resource = strings.TrimSuffix(strings.ToLower(gvk.Kind), "y") + "ies"
		}
		var stored *unstructured.Unstructured
		var err error
		if u.GetNamespace() == "" {
			stored, err = policies.Resource(gvr).Create(t.Context(), u, metav1.CreateOptions{})
		} else {
			stored, err = policies.Resource(gvr).Namespace(u.GetNamespace()).Create(t.Context(), u, metav1.CreateOptions{})
		}
		if err != nil {
			t.Fatalf("%v: %v", u, err)
		}
		if gvk == thingGVK {
			custom = append(custom, stored)
			continue
		}
		obj, err := scheme.Scheme.New(gvk)
		if err != nil {
			t.Fatal(err)
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(stored.Object, obj); err != nil {
			t.Fatal(err)
		}
		typed = append(typed, obj)
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel = cancel
	var err error
	if b.upstream, err = startPlugins(ctx, access{b.client}, typed, custom); err != nil {
		t.Fatal(err)
	}
	return b
}

// access is an authorizer that asks our server.
type access struct{ client *fake.Clientset }

func (a access) Authorize(_ context.Context, r authorizer.Attributes) (authorizer.Decision, string, error) {
	u := r.GetUser()
	client := a.client.AsUser(authenticationv1.UserInfo{Username: u.GetName(), Groups: u.GetGroups()})
	err := client.Authorize(authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
		Namespace: r.GetNamespace(), Verb: r.GetVerb(), Group: r.GetAPIGroup(), Resource: r.GetResource(),
		Subresource: r.GetSubresource(), Name: r.GetName(),
	}})
	if err != nil {
		return authorizer.DecisionNoOpinion, err.Error(), nil
	}
	return authorizer.DecisionAllow, "", nil
}

// A question is a request.
type question struct {
	operation   reviewv1.Operation
	gvk         schema.GroupVersionKind
	gvr         schema.GroupVersionResource
	object, old *unstructured.Unstructured
	user        authenticationv1.UserInfo
}

func (q question) name() string {
	if q.object != nil {
		return q.object.GetName()
	}
	return q.old.GetName()
}

func (q question) namespace() string {
	u := q.object
	if u == nil {
		u = q.old
	}
	if q.gvk.Kind == "Namespace" {
		return u.GetName()
	}
	return u.GetNamespace()
}

// An answer is the result of a question.
type answer struct {
	Status   *metav1.Status
	Warnings []string
	Audited  map[string]string
	Object   map[string]any
}

func statusOf(err error) *metav1.Status {
	if err == nil {
		return nil
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		s := status.Status()
		return &s
	}
	return &metav1.Status{Message: err.Error()}
}

// A recorder keeps the warnings of a request, each once, as that of a kube-apiserver does.
type recorder struct{ texts []string }

func (r *recorder) AddWarning(_, text string) {
	if !slices.Contains(r.texts, text) {
		r.texts = append(r.texts, text)
	}
}

func audited() context.Context {
	ctx := audit.WithAuditContext(context.Background())
	if err := audit.AuditContextFrom(ctx).Init(audit.RequestAuditConfig{Level: auditinternal.LevelMetadata}, nil); err != nil {
		panic(err)
	}
	return ctx
}

// typed returns an object with defaults in its Go type.
func typed(u *unstructured.Unstructured) (runtime.Object, error) {
	if u == nil || u.GroupVersionKind() == thingGVK {
		if u == nil {
			return nil, nil
		}
		return u.DeepCopy(), nil
	}
	obj, err := legacyscheme.Scheme.New(u.GroupVersionKind())
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, obj)
	}
	if err == nil {
		legacyscheme.Scheme.Default(obj)
		obj.GetObjectKind().SetGroupVersionKind(u.GroupVersionKind())
	}
	return obj, err
}

func plain(obj any) map[string]any {
	data, err := json.Marshal(obj)
	if err != nil {
		panic(err)
	}
	out := map[string]any{}
	if err := json.Unmarshal(data, &out); err != nil {
		panic(err)
	}
	return out
}

// askUpstream asks upstream's plugins, in two passes if needed.
func (b *both) askUpstream(t *rapid.T, q question) answer {
	obj, err := typed(q.object)
	old, err2 := typed(q.old)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	if obj != nil {
		obj, err = internal(obj)
	}
	if old != nil {
		old, err2 = internal(old)
	}
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	ctx, warned := audited(), &recorder{}
	ctx = warning.WithWarningRecorder(ctx, warned)
	a := upstream.NewAttributesRecord(obj, old, q.gvk, q.namespace(), q.name(), q.gvr, "", upstream.Operation(q.operation), nil, false,
		&user.DefaultInfo{Name: q.user.Username, Groups: q.user.Groups})
	o := objectInterfaces(q.gvk == thingGVK)
	var done error
	if b.upstream.mutating.Handles(a.GetOperation()) {
		done = b.upstream.mutating.Admit(ctx, a, o)
		if again := a.GetReinvocationContext(); done == nil && again.ShouldReinvoke() {
			again.SetIsReinvoke()
			done = b.upstream.mutating.Admit(ctx, a, o)
		}
	}
	if done == nil {
		done = upstream.WithAudit(b.upstream.validating).(upstream.ValidationInterface).Validate(ctx, a, o)
	}
	out := answer{Status: statusOf(done), Warnings: warned.texts, Audited: audit.AuditContextFrom(ctx).GetEventAnnotations()}
	if obj != nil && done == nil {
		shown, err := external(a.GetObject(), q.gvk.GroupVersion())
		if err != nil {
			t.Fatal(err)
		}
		out.Object = admitted(shown, q.gvk.Kind)
	}
	return out
}

// askUs asks our server, which stores nothing. What it refuses later, by validation, is not an answer.
func (b *both) askUs(t *rapid.T, q question) (out answer, ok bool) {
	if q.old != nil {
		old, err := typed(q.old)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.server.Add(old); err != nil {
			t.Fatal(err)
		}
		defer b.remove(q)
	}
	namespace := q.namespace()
	if q.gvk.Kind == "Namespace" {
		namespace = ""
	}
	client, ok := b.client.AsUser(q.user).Resource(q.gvr, namespace)
	if !ok {
		t.Fatal(q.gvr)
	}
	mayRead, _ := b.client.Resource(q.gvr, namespace)
	var obj fake.Object
	if q.object != nil {
		sent, err := typed(q.object)
		if err != nil {
			t.Fatal(err)
		}
		obj = ours(t, sent)
		if q.old != nil {
			stored, err := mayRead.Get(t.Context(), q.name(), metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			obj.SetResourceVersion(stored.GetResourceVersion())
		}
	}
	ctx, dry := audited(), []string{metav1.DryRunAll}
	var done fake.Result
	var err error
	switch q.operation {
	case reviewv1.Create:
		done, err = client.Create(ctx, obj, metav1.CreateOptions{DryRun: dry})
	case reviewv1.Update:
		done, err = client.Update(ctx, q.name(), obj, metav1.UpdateOptions{DryRun: dry})
	default:
		done, err = client.Delete(ctx, q.name(), metav1.DeleteOptions{DryRun: dry})
	}
	out = answer{Status: statusOf(err), Warnings: done.Warnings, Audited: audit.AuditContextFrom(ctx).GetEventAnnotations()}
	if err != nil && strings.Contains(err.Error(), q.gvk.Kind) && strings.Contains(err.Error(), " is invalid: ") {
		return out, false
	}
	if obj != nil && err == nil {
		out.Object = admitted(done.Object, q.gvk.Kind)
	}
	return out, true
}

// remove removes the object that a request is about.
func (b *both) remove(q question) {
	namespace := q.namespace()
	if q.gvk.Kind == "Namespace" {
		namespace = ""
	}
	resource := q.gvr.Resource
	if q.gvk == thingGVK {
		resource += ".example.com"
	}
	deleted := func(stored fake.Object) fake.Object {
		out := stored.DeepCopyObject().(fake.Object)
		out.SetFinalizers(nil)
		if ns, ok := out.(*corev1.Namespace); ok {
			ns.Spec.Finalizers = nil
		}
		out.SetDeletionTimestamp(&metav1.Time{Time: sim.Epoch})
		return out
	}
	b.server.UpdateStored(resource, namespace, q.name(), deleted)
	b.server.UpdateStored(resource, namespace, q.name(), deleted) // it has no finalizers now
}

// admitted returns what admission may change of an object, without what the server decides afterwards.
func admitted(obj any, kind string) map[string]any {
	all := plain(obj)
	meta, _ := all["metadata"].(map[string]any)
	out := map[string]any{}
	for _, name := range []string{"labels", "annotations", "finalizers", "ownerReferences"} {
		if v, ok := meta[name]; ok {
			out[name] = v
		}
	}
	for _, name := range []string{"data", "spec", "colour"} {
		if v, ok := all[name]; ok && kind != "Namespace" {
			out[name] = v
		}
	}
	return out
}

// ours returns an object as our server has it.
func ours(t *rapid.T, obj runtime.Object) fake.Object {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj.(fake.Object)
	}
	data, err := u.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	c := &fake.CustomObject{}
	if err := c.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestSameDecisions compares the answers to drawn requests.
func TestSameDecisions(t *testing.T) {
	counts := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		b := newBoth(t, drawWorld(t))
		defer b.cancel()
		for i := range 12 {
			q := drawQuestion(t, i)
			want := b.askUpstream(t, q)
			for tries := 0; want.Status != nil && strings.Contains(want.Status.Message, "There can be a delay") && tries < 100; tries++ {
				time.Sleep(20 * time.Millisecond) // upstream reads the documents meanwhile
				want = b.askUpstream(t, q)
			}
			got, ok := b.askUs(t, q)
			if !ok && want.Status == nil {
				counts["invalid"]++
				continue
			}
			if want.Status != nil {
				want.Warnings = nil // our clients get none with an error
			}
			if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
				t.Fatalf("%s\n%s %s (-upstream +ours):\n%s", b.policies(), q.operation, q.gvk, d)
			}
			counts["asked"]++
			if want.Status != nil {
				counts["refused "+string(want.Status.Reason)]++
			}
			if len(want.Warnings) > 0 {
				counts["warned"]++
			}
			if len(want.Audited) > 0 {
				counts["audited"]++
			}
			if q.object != nil && want.Object != nil && fmt.Sprint(want.Object["data"]) != fmt.Sprint(q.object.Object["data"]) {
				counts["changed"]++
			}
		}
	})
	t.Log(counts)
}

// policies returns the stored policies and bindings as JSON lines.
func (b *both) policies() string {
	var out strings.Builder
	for _, resource := range []string{
		"validatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings",
	} {
		for _, obj := range b.server.List(resource) {
			data, _ := json.Marshal(obj)
			fmt.Fprintf(&out, "%s\n", data)
		}
	}
	return out.String()
}
