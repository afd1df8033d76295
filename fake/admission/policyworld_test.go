package admission_test

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"sigs.k8s.io/yaml"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/admission"
	"github.com/volsim/volsim/fake/internal/admit"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

var (
	getOptions    = metav1.GetOptions{}
	updateOptions = metav1.UpdateOptions{}
	deleteOptions = metav1.DeleteOptions{}
)

// A world is a server with policies and its administrator.
type world struct {
	t      testing.TB
	server *fake.Server
	client *fake.Clientset
}

func newWorld(t testing.TB, cfg fake.Config) *world {
	cfg.Now = func() time.Time { return sim.Epoch }
	w := &world{t: t, server: fake.NewServer(cfg)}
	admission.Serve(w.server)
	w.client = w.server.Client(sim.DirectCaller())
	return w
}

// documents splits YAML into its documents.
func documents(text string) []string {
	var out []string
	for doc := range strings.SplitSeq(text, "\n---\n") {
		if strings.TrimSpace(doc) != "" {
			out = append(out, doc)
		}
	}
	return out
}

// parse returns a document as an object of its resource's Go type, and the resource's client. Its namespace is default,
// unless it has one.
func (w *world) parse(doc string) (fake.ResourceClient, fake.Object) {
	w.t.Helper()
	content := map[string]any{}
	testcheck.NoError(w.t, yaml.Unmarshal([]byte(doc), &content))
	u := &unstructured.Unstructured{Object: content}
	gvk := u.GroupVersionKind()
	for _, r := range w.server.Resources() {
		if r.Group != gvk.Group || r.Version != gvk.Version || r.Kind != gvk.Kind {
			continue
		}
		namespace := ""
		if r.Namespaced {
			namespace = cmp.Or(u.GetNamespace(), "default")
			u.SetNamespace(namespace)
		}
		client, _ := w.client.Resource(gvk.GroupVersion().WithResource(r.Name), namespace)
		obj := client.New()
		if c, ok := obj.(*fake.CustomObject); ok {
			testcheck.NoError(w.t, c.UnmarshalJSON(testcheck.Must(u.MarshalJSON())))
		} else {
			testcheck.NoError(w.t, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, obj))
		}
		return client, obj
	}
	w.t.Fatalf("%s is not served", gvk)
	return fake.ResourceClient{}, nil
}

// store stores documents.
func (w *world) store(docs string) {
	w.t.Helper()
	for _, doc := range documents(docs) {
		client, obj := w.parse(doc)
		_, err := client.Create(context.Background(), obj, metav1.CreateOptions{})
		testcheck.NoError(w.t, err)
	}
}

// An outcome is the answer to a request.
type outcome struct {
	err      error
	object   fake.Object
	warnings []string
	audited  map[string]string
}

// text returns the code, the reason and the message of a refusal, or "".
func (o outcome) text() string {
	var status apierrors.APIStatus
	if !errors.As(o.err, &status) {
		if o.err != nil {
			return o.err.Error()
		}
		return ""
	}
	s := status.Status()
	return strings.Join([]string{string(s.Reason), s.Message}, ": ")
}

// A request is what a user asks for.
type request struct {
	operation admissionv1.Operation // "": CREATE
	object    string                // YAML
	user      string                // "": admin
	groups    []string
}

// ask makes a request.
func (w *world) ask(r request) outcome {
	w.t.Helper()
	ctx := audit.WithAuditContext(context.Background())
	testcheck.NoError(w.t, audit.AuditContextFrom(ctx).Init(audit.RequestAuditConfig{Level: auditinternal.LevelMetadata}, nil))
	user := authenticationv1.UserInfo{Username: r.user, Groups: append(r.groups, "system:authenticated")}
	if r.user == "" {
		user = authenticationv1.UserInfo{Username: "admin", Groups: []string{"system:masters"}}
	}
	out := w.send(ctx, r, user)
	out.audited = audit.AuditContextFrom(ctx).GetEventAnnotations()
	return out
}

// send makes a request through the server.
func (w *world) send(ctx context.Context, r request, user authenticationv1.UserInfo) outcome {
	w.t.Helper()
	client, obj := w.parse(r.object)
	gvr := client.Describe()
	namespaced := obj.GetNamespace()
	client, _ = w.client.AsUser(user).Resource(schema.GroupVersionResource{Group: gvr.Group, Version: gvr.Version, Resource: gvr.Name}, namespaced)
	var done fake.Result
	var err error
	switch cmp.Or(r.operation, admissionv1.Create) {
	case admissionv1.Create:
		done, err = client.Create(ctx, obj, metav1.CreateOptions{})
	case admissionv1.Update:
		done, err = client.Update(ctx, obj.GetName(), obj, metav1.UpdateOptions{})
	case admissionv1.Delete:
		done, err = client.Delete(ctx, obj.GetName(), metav1.DeleteOptions{})
	}
	return outcome{err: err, object: done.Object, warnings: done.Warnings}
}

// requestOf returns the request for a creation.
func requestOf(client fake.ResourceClient, obj fake.Object) *admit.Request {
	is := client.Describe()
	obj.GetObjectKind().SetGroupVersionKind(client.GroupVersionKind())
	r := &admit.Request{
		Operation: admissionv1.Create, Kind: client.GroupVersionKind(),
		Resource:  schema.GroupVersionResource{Group: is.Group, Version: is.Version, Resource: is.Name},
		Namespace: obj.GetNamespace(), Name: obj.GetName(), Object: obj, Options: &metav1.CreateOptions{},
	}
	r.Set = func(obj runtime.Object) error {
		r.Object = obj
		return nil
	}
	return r
}
