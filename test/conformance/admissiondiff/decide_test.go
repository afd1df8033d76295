package admissiondiff

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	reviewv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
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

type recorder struct{ texts []string }

func (r *recorder) AddWarning(_, text string) { r.texts = append(r.texts, text) }

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
		out.Object = plain(shown)
	}
	return out
}

// askUs asks our Admitter, in two passes if needed.
func (b *both) askUs(t *rapid.T, q question) answer {
	obj, err := typed(q.object)
	old, err2 := typed(q.old)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	r := &fake.AdmissionRequest{
		Operation: q.operation, Kind: q.gvk, Resource: q.gvr, Namespace: q.namespace(), Name: q.name(), User: q.user,
	}
	if obj != nil {
		r.Object = ours(t, obj)
	}
	if old != nil {
		r.OldObject = ours(t, old)
	}
	ctx, sent := audited(), r.Object
	by := b.server.Admitter()
	done := by.Mutate(ctx, r)
	if done == nil && r.Object != sent {
		r.Again = true
		done = by.Mutate(ctx, r)
	}
	if done == nil {
		done = by.Validate(ctx, r)
	}
	out := answer{Status: statusOf(done), Warnings: warningsOf(r), Audited: audit.AuditContextFrom(ctx).GetEventAnnotations()}
	if r.Object != nil && done == nil {
		r.Object.GetObjectKind().SetGroupVersionKind(q.gvk)
		out.Object = plain(r.Object)
	}
	return out
}

// warningsOf returns the warnings that were added to a request.
func warningsOf(r *fake.AdmissionRequest) []string {
	var out []string
	if added := reflect.ValueOf(r).Elem().FieldByName("warnings"); added.IsValid() {
		for i := range added.Len() {
			out = append(out, added.Index(i).String())
		}
	}
	return out
}

// ours returns an object as our server has it.
func ours(t *rapid.T, obj runtime.Object) runtime.Object {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj
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
	if calls() {
		t.Skip("the Admitter needs requests of the write pipeline")
	}
	counts := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		b := newBoth(t, drawWorld(t))
		defer b.cancel()
		for i := range 12 {
			q := drawQuestion(t, i)
			want, got := b.askUpstream(t, q), b.askUs(t, q)
			for tries := 0; want.Status != nil && strings.Contains(want.Status.Message, "There can be a delay") && tries < 100; tries++ {
				time.Sleep(20 * time.Millisecond) // upstream reads the documents meanwhile
				want = b.askUpstream(t, q)
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
			if q.object != nil && want.Object != nil && fmt.Sprint(want.Object["data"], want.Object["spec"]) != fmt.Sprint(q.object.Object["data"], q.object.Object["spec"]) {
				counts["changed"]++
			}
		}
	})
	t.Log(counts)
}

// calls reports whether only a request of the server can be changed.
func calls() bool {
	_, ok := reflect.TypeFor[fake.AdmissionRequest]().FieldByName("admission")
	return ok
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
