package crd_test

import (
	"errors"
	"io"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/apiserver"
)

// gears is a resource with a version that is stored, v1, and one that is not, v1beta1. Each sets
// defaults of its own.
const gears = `
metadata: {name: gears.shop.example.com}
spec:
  group: shop.example.com
  scope: Namespaced
  names: {plural: gears, kind: Gear}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, properties: {
      spec: {type: object, properties: {a: {type: string, default: A}, v1: {type: string, default: V}, v1beta1: {type: string}}},
      status: {type: object, properties: {a: {type: string, default: A}, v1: {type: string, default: V}, v1beta1: {type: string}}}}}}
  - name: v1beta1
    served: true
    storage: false
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, properties: {
      spec: {type: object, properties: {a: {type: string}, v1: {type: string}, v1beta1: {type: string, default: B}}},
      status: {type: object, properties: {a: {type: string}, v1: {type: string}, v1beta1: {type: string, default: B}}}}}}
`

var (
	gearsV1      = schema.GroupVersionResource{Group: "shop.example.com", Version: "v1", Resource: "gears"}
	gearsV1beta1 = schema.GroupVersionResource{Group: "shop.example.com", Version: "v1beta1", Resource: "gears"}
)

// The version of a request sets its defaults in what was sent, and the stored version in what is
// read. A write of the status sets none in the spec.
func TestDefaultsOfTheVersionOfARequest(t *testing.T) {
	w := newWorld(t)
	w.create(definitions, "", gears)
	obj := w.create(gearsV1, "default", `{metadata: {name: a}, spec: {}}`)
	expect(t, `{"spec":{"a":"A","v1":"V"}}`, text(t, obj.Content))
	obj = w.mustPatch(gearsV1beta1, "default", "a", `{"status":{}}`, "status")
	expect(t, `{"spec":{"a":"A","v1":"V"},"status":{"a":"A","v1":"V","v1beta1":"B"}}`, text(t, obj.Content))
	expect(t, `{"spec":{"a":"A","v1":"V"},"status":{"a":"A","v1":"V","v1beta1":"B"}}`,
		text(t, w.get(gearsV1, "default", "a").Content))

	obj = w.create(gearsV1beta1, "default", `{metadata: {name: b}, spec: {}}`)
	const both = `{"spec":{"a":"A","v1":"V","v1beta1":"B"}}`
	expect(t, both, text(t, obj.Content))
	expect(t, both, text(t, w.get(gearsV1, "default", "b").Content))
	w.mustPatch(definitions, "", "gears.shop.example.com",
		`[{"op":"remove","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/a/default"}]`)
	// the default of the stored version was not stored
	expect(t, `{"spec":{"v1":"V","v1beta1":"B"}}`, text(t, w.get(gearsV1, "default", "b").Content))
	expect(t, `{"spec":{"v1":"V","v1beta1":"B"}}`, text(t, w.get(gearsV1beta1, "default", "b").Content))
}

// Server-side apply does not drop nulls: those of fields that are not nullable are invalid, unless
// there is a default. Other writes drop them.
func TestApplyOfNull(t *testing.T) {
	w := newWorld(t)
	w.create(definitions, "", `
metadata: {name: gears.shop.example.com}
spec:
  group: shop.example.com
  scope: Namespaced
  names: {plural: gears, kind: Gear}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {
      inner: {type: object, properties: {a: {type: string}}},
      free: {type: object, nullable: true, properties: {a: {type: string}}},
      size: {type: integer, default: 3}}}}}}
`)
	apply := func(spec string) (*fake.CustomObject, error) {
		done, err := w.resource(gearsV1, "default").Patch(w.ctx, "a", types.ApplyYAMLPatchType, []byte(
			`{"apiVersion":"shop.example.com/v1","kind":"Gear","metadata":{"name":"a"},"spec":`+spec+`}`),
			metav1.PatchOptions{FieldManager: "m"})
		if err != nil {
			return nil, err
		}
		return done.Object.(*fake.CustomObject), nil
	}
	obj := must(apply(`{"inner":{"a":"1"},"free":{"a":"1"}}`))(t)
	expect(t, `{"spec":{"free":{"a":"1"},"inner":{"a":"1"},"size":3}}`, text(t, obj.Content))
	_, err := apply(`{"inner":null}`)
	expectError(t, `Gear.shop.example.com "a" is invalid: spec.inner: Invalid value: "null": `+
		`spec.inner in body must be of type object: "null"`, err)
	obj = must(apply(`{"free":null,"size":null}`))(t)
	expect(t, `{"spec":{"free":null,"size":3}}`, text(t, obj.Content))
	obj = w.mustPatch(gearsV1, "default", "a", `[{"op":"add","path":"/spec/inner","value":null}]`)
	expect(t, `{"spec":{"free":null,"size":3}}`, text(t, obj.Content))
}

// A change of a definition ends the watches of its objects, without an error, after the events
// before it. A watch from then on is not affected.
func TestChangedDefinitionEndsWatches(t *testing.T) {
	change := func(w *world) {
		w.mustPatch(definitions, "", "widgets.shop.example.com", `{"spec":{"names":{"shortNames":["wd"]}}}`)
	}
	t.Run("cursor", func(t *testing.T) {
		w := newWorld(t, "testdata/widgets.yaml")
		c := must(w.resource(widgets, "").Watch(w.ctx, metav1.ListOptions{}))(t)
		changed := c.Changed()
		change(w)
		<-changed
		_, _, err := c.Next()
		expect(t, true, errors.Is(err, io.EOF))
		<-c.Changed()
	})
	for name, dyn := range map[string]func(*world) dynamic.Interface{
		"typed": func(w *world) dynamic.Interface { return w.client.Dynamic() },
		"in memory": func(w *world) dynamic.Interface {
			return dynamic.NewForConfigOrDie(apiserver.NewConfig(w.server, outside{}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "testdata/widgets.yaml")
			c := dyn(w).Resource(widgets)
			events := must(c.Watch(w.ctx, metav1.ListOptions{}))(t)
			w.create(widgets, "default", `{metadata: {name: a}, spec: {size: 1}}`)
			w.mustPatch(definitions, "", "widgets.shop.example.com", `{"metadata":{"labels":{"a":"b"}}}`) // changes nothing
			w.create(widgets, "default", `{metadata: {name: b}, spec: {size: 1}}`)
			change(w)
			w.create(widgets, "default", `{metadata: {name: c}, spec: {size: 1}}`)
			names := func(events watch.Interface) (all []string) {
				for e := range events.ResultChan() {
					obj, ok := e.Object.(metav1.Object)
					if !ok {
						t.Fatalf("got %v", e)
					}
					if all = append(all, obj.GetName()); obj.GetName() == "c" {
						events.Stop()
					}
				}
				return all
			}
			expect(t, []string{"a", "b"}, names(events))
			expect(t, []string{"a", "b", "c"}, names(must(c.Watch(w.ctx, metav1.ListOptions{}))(t)))
		})
	}
}
