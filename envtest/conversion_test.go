package envtest_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/volsim/volsim/envtest"
	"github.com/volsim/volsim/internal/testcheck"
)

// A hub is what the conversion methods of kubebuilder's types take. In a project it is
// conversion.Hub of controller-runtime.
type hub interface {
	runtime.Object
	Hub()
}

// ovenV2 is stored, and the hub.
type ovenV2 struct {
	metav1.TypeMeta
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Celsius int `json:"celsius"`
	} `json:"spec"`
}

func (*ovenV2) Hub() {}

func (o *ovenV2) DeepCopyObject() runtime.Object { c := *o; return &c }

// oven is a version that converts; it has text such as "20C".
type oven struct {
	metav1.TypeMeta
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Heat string `json:"heat"`
	} `json:"spec"`
}

func (o *oven) ConvertTo(dst hub) error {
	to := dst.(*ovenV2)
	to.ObjectMeta = o.ObjectMeta
	celsius, err := strconv.Atoi(strings.TrimSuffix(o.Spec.Heat, "C"))
	if err != nil {
		return errors.New("no temperature")
	}
	to.Spec.Celsius = celsius
	return nil
}

func (o *oven) ConvertFrom(src hub) error {
	from := src.(*ovenV2)
	o.ObjectMeta = from.ObjectMeta
	o.Spec.Heat = fmt.Sprintf("%dC", from.Spec.Celsius)
	return nil
}

func (o *oven) DeepCopyObject() runtime.Object { c := *o; return &c }

type (
	ovenV1 struct{ oven }
	ovenV3 struct{ oven }
)

func (o *ovenV1) DeepCopyObject() runtime.Object { c := *o; return &c }
func (o *ovenV3) DeepCopyObject() runtime.Object { c := *o; return &c }

// ovenScheme returns a scheme with three versions.
func ovenScheme() *runtime.Scheme {
	goTypes := runtime.NewScheme()
	for version, obj := range map[string]runtime.Object{"v1": &ovenV1{}, "v2": &ovenV2{}, "v3": &ovenV3{}} {
		goTypes.AddKnownTypeWithName(schema.GroupVersionKind{Group: "example.com", Version: version, Kind: "Oven"}, obj)
	}
	return goTypes
}

// ovens has a conversion webhook that does not exist, as in the configuration of a project.
const ovens = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ovens.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: ovens, kind: Oven}
  conversion:
    strategy: Webhook
    webhook:
      conversionReviewVersions: [v1]
      clientConfig: {service: {namespace: system, name: webhook-service, path: /convert}}
  versions:
  - &heat {name: v1, served: true, storage: false, schema: {openAPIV3Schema: {type: object, properties: {
      spec: {type: object, properties: {heat: {type: string}}}}}}}
  - {name: v2, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {
      spec: {type: object, properties: {celsius: {type: integer}}}}}}}
  - {<<: *heat, name: v3}
`

func ovensOf(t *testing.T, e *envtest.Environment, version string) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(e.Config)
	testcheck.NoError(t, err)
	return client.Resource(schema.GroupVersionResource{Group: "example.com", Version: version, Resource: "ovens"}).Namespace("default")
}

func newOven(heat string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Oven", "metadata": map[string]any{"name": "o", "labels": map[string]any{"a": "b"}},
		"spec": map[string]any{"heat": heat},
	}}
}

// Go types convert objects to the hub, from it, and by way of it, whichever version is stored.
func TestConversionByGoTypes(t *testing.T) {
	firstStored := strings.NewReplacer("name: v1, served: true, storage: false", "name: v1, served: true, storage: true",
		"name: v2, served: true, storage: true", "name: v2, served: true, storage: false", "name: v3", "name: v3, storage: false")
	for name, text := range map[string]string{"hub stored": ovens, "v1 stored": firstStored.Replace(ovens)} {
		t.Run(name, func(t *testing.T) {
			e := &envtest.Environment{
				Scheme: ovenScheme(), CRDDirectoryPaths: []string{directory(t, map[string]string{"o.yaml": text})},
			}
			start(t, e)
			_, err := ovensOf(t, e, "v1").Create(t.Context(), newOven("20C"), metav1.CreateOptions{})
			testcheck.NoError(t, err)
			for _, c := range []struct {
				version, field string
				want           any
			}{{"v1", "heat", "20C"}, {"v2", "celsius", int64(20)}, {"v3", "heat", "20C"}} {
				got, err := ovensOf(t, e, c.version).Get(t.Context(), "o", metav1.GetOptions{})
				testcheck.NoError(t, err)
				spec, _ := got.Object["spec"].(map[string]any)
				if len(spec) != 1 || spec[c.field] != c.want || got.GetLabels()["a"] != "b" || got.GetAPIVersion() != "example.com/"+c.version {
					t.Errorf("%s: got %v", c.version, got.Object)
				}
			}
			heat := func(value string) error {
				_, err := ovensOf(t, e, "v3").Patch(t.Context(), "o", types.MergePatchType, []byte(`{"spec":{"heat":"`+value+`"}}`), metav1.PatchOptions{})
				return err
			}
			if err := heat("hot"); err == nil || !strings.Contains(err.Error(), "no temperature") {
				t.Errorf("a failed conversion: %v", err)
			}
			testcheck.NoError(t, heat("30C"))
			got, err := ovensOf(t, e, "v2").Get(t.Context(), "o", metav1.GetOptions{})
			testcheck.NoError(t, err)
			if celsius, _, _ := unstructured.NestedInt64(got.Object, "spec", "celsius"); celsius != 30 {
				t.Errorf("got %d", celsius)
			}
		})
	}
}

// The webhook of a kind without converting types is removed, as upstream does.
func TestConversionIsRemoved(t *testing.T) {
	for name, goTypes := range map[string]*runtime.Scheme{"unknown": runtime.NewScheme(), "default": nil} {
		t.Run(name, func(t *testing.T) {
			e := &envtest.Environment{Scheme: goTypes, CRDDirectoryPaths: []string{directory(t, map[string]string{"o.yaml": ovens})}}
			start(t, e)
			if got := e.CRDs[0].Spec.Conversion; got.Strategy != apiextensionsv1.NoneConverter {
				t.Errorf("got %v", got)
			}
		})
	}
}
