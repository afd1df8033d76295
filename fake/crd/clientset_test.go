package crd_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	typed "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/volsim/volsim/fake/apiserver"
)

// clientset returns the clientset of definitions, which uses protobuf, over HTTP in memory. seen
// gets the content type of each request and its answer.
func (w *world) clientset(seen func(request, answer string)) typed.CustomResourceDefinitionInterface {
	cfg := apiserver.NewConfig(w.server, outside{})
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			res, err := next.RoundTrip(req)
			if err == nil && seen != nil {
				seen(req.Header.Get("Content-Type"), res.Header.Get("Content-Type"))
			}
			return res, err
		})
	})
	return clientset.NewForConfigOrDie(cfg).ApiextensionsV1().CustomResourceDefinitions()
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// definition returns the definition in a file, or with another plural in it.
func definition(t *testing.T, file string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal([]byte(read(t, file)), crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

// Definitions are read, written and watched by the clientset of definitions, in protobuf.
func TestDefinitionsInProtobuf(t *testing.T) {
	w := newWorld(t)
	media := map[string]bool{}
	c := w.clientset(func(request, answer string) { media[request+" → "+answer] = true })
	crd := must(c.Create(w.ctx, definition(t, "testdata/widgets.yaml"), metav1.CreateOptions{}))(t)
	expect(t, []string{"v1"}, crd.Status.StoredVersions)
	crd.Labels = map[string]string{"a": "b"}
	crd = must(c.Update(w.ctx, crd, metav1.UpdateOptions{}))(t)
	crd.Status.Conditions[0].Message = "other"
	crd = must(c.UpdateStatus(w.ctx, crd, metav1.UpdateOptions{}))(t)
	expect(t, "other", crd.Status.Conditions[0].Message)
	got := must(c.Get(w.ctx, crd.Name, metav1.GetOptions{}))(t)
	if diff := cmp.Diff(crd, got); diff != "" {
		t.Errorf("(-updated +read)\n%s", diff)
	}
	list := must(c.List(w.ctx, metav1.ListOptions{LabelSelector: "a=b"}))(t)
	if diff := cmp.Diff([]apiextensionsv1.CustomResourceDefinition{*crd}, list.Items); diff != "" {
		t.Errorf("(-updated +listed)\n%s", diff)
	}
	events := must(c.Watch(w.ctx, metav1.ListOptions{}))(t)
	defer events.Stop()
	e := <-events.ResultChan()
	if diff := cmp.Diff(watch.Event{Type: watch.Added, Object: crd}, e); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	const proto = "application/vnd.kubernetes.protobuf"
	expect(t, map[string]bool{proto + " → " + proto: true, " → " + proto: true, " → " + proto + ";stream=watch": true}, media)

	_, err := c.Create(w.ctx, &apiextensionsv1.CustomResourceDefinition{}, metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) {
		t.Errorf("empty definition: got %v", err)
	}
	if err := c.Delete(w.ctx, crd.Name, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// A body that is not a definition is refused as by the real server.
func TestProtobufThatIsNoDefinition(t *testing.T) {
	w := newWorld(t)
	const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	envelope := func(kind, version string, raw []byte) []byte {
		data, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: version, Kind: kind}, Raw: raw}).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return append([]byte("k8s\x00"), data...)
	}
	for _, test := range []struct {
		name string
		body []byte
		want string
	}{
		{"no protobuf", []byte("x"), "400 the object provided is unrecognized (must be of type CustomResourceDefinition): " +
			"provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] (78)"},
		{"another kind", envelope("Pod", "v1", nil), `400 Pod in version "v1" cannot be handled as a CustomResourceDefinition: ` +
			`no kind "Pod" is registered for version "v1" in scheme "pkg/runtime/scheme.go:111"`},
		{"broken", envelope("CustomResourceDefinition", "apiextensions.k8s.io/v1", []byte{0xff}), `400 CustomResourceDefinition ` +
			`in version "v1" cannot be handled as a CustomResourceDefinition: unexpected EOF`},
	} {
		t.Run(test.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(w.ctx, http.MethodPost, "http://x"+path, strings.NewReader(string(test.body)))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/vnd.kubernetes.protobuf")
			got := w.send(req)
			expect(t, test.want, got)
		})
	}
}

// send makes a request over HTTP, and returns the code and the message of its answer.
func (w *world) send(req *http.Request) string {
	w.t.Helper()
	client := must(rest.HTTPClientFor(apiserver.NewConfig(w.server, outside{})))(w.t)
	res := must(client.Do(req))(w.t)
	defer res.Body.Close()
	var status metav1.Status
	if err := json.NewDecoder(res.Body).Decode(&status); err != nil {
		w.t.Fatal(err)
	}
	return res.Status[:4] + status.Message
}

// Definitions have Go types, so strategic merge patches apply to them and to their status.
func TestStrategicPatchOfADefinition(t *testing.T) {
	w := newWorld(t, "testdata/widgets.yaml")
	c := w.clientset(nil)
	patch := func(data string, sub ...string) (*apiextensionsv1.CustomResourceDefinition, error) {
		return c.Patch(w.ctx, "widgets.shop.example.com", types.StrategicMergePatchType, []byte(data),
			metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict}, sub...)
	}
	crd := must(patch(`{"metadata":{"finalizers":["a.io/b"]},"spec":{"names":{"shortNames":["wd"]}}}`))(t)
	expect(t, []string{"a.io/b"}, crd.Finalizers)
	expect(t, []string{"wd"}, crd.Status.AcceptedNames.ShortNames)
	crd = must(patch(`{"status":{"conditions":[{"type":"X","status":"True","reason":"R","message":"m",`+
		`"lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, "status"))(t)
	expect(t, 1, len(crd.Status.Conditions)) // the list has no merge key in Go
	_, err := patch(`{"spec":{"x":1}}`)
	expectError(t, ` "" is invalid: patch: Invalid value: "map[spec:map[x:1]]": strict decoding error: unknown field "spec.x"`, err)
}

// The scale of a custom resource has a Go type, so it is served as protobuf; the object is not.
func TestScaleInProtobuf(t *testing.T) {
	w := newWorld(t, "testdata/widgets.yaml")
	w.create(widgets, "default", `{metadata: {name: a}, spec: {size: 1, replicas: 2}}`)
	cfg := apiserver.NewConfig(w.server, outside{})
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf
	cfg.GroupVersion, cfg.NegotiatedSerializer = &autoscalingv1.SchemeGroupVersion, scheme.Codecs.WithoutConversion()
	c := must(rest.RESTClientFor(cfg))(t)
	const path = "/apis/shop.example.com/v1/namespaces/default/widgets/a"
	scale := &autoscalingv1.Scale{}
	if err := c.Get().AbsPath(path + "/scale").Do(w.ctx).Into(scale); err != nil {
		t.Fatal(err)
	}
	scale.Spec.Replicas = 3
	if err := c.Put().AbsPath(path + "/scale").Body(scale).Do(w.ctx).Into(scale); err != nil {
		t.Fatal(err)
	}
	expect(t, int32(3), scale.Spec.Replicas)
	if err := c.Get().AbsPath(path).Do(w.ctx).Error(); !apierrors.IsNotAcceptable(err) {
		t.Errorf("object: got %v", err)
	}
}

// must returns a function that returns the value of a call, and fails the test if the call fails.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
