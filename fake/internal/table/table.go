package table

import (
	"fmt"
	"reflect"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/volsim/volsim/fake"
)

// printer returns the columns of a table and the cells of its rows.
type printer interface {
	columns() []metav1.TableColumnDefinition
	row(obj fake.Object, now clock) (metav1.TableRow, error)
}

// New returns the table of objects of a resource, or of one of its subresources. meta is that of
// the list, or has the resourceVersion of the only object. Ages are relative to now. The rows share
// memory with the objects. An unknown includeObject is a BadRequest.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers/response.go optionsForTransform, asTable.
func New(
	r fake.APIResource, meta metav1.ListMeta, objects []fake.Object, now time.Time, opts metav1.TableOptions,
) (*metav1.Table, error) {
	if errs := validation.ValidateTableOptions(&opts); len(errs) > 0 {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("Unable to convert to Table as requested: %v", errs[0].Error()))
	}
	gvk := schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
	if len(objects) > 0 {
		if _, scale := objects[0].(*autoscalingv1.Scale); scale {
			gvk = autoscalingv1.SchemeGroupVersion.WithKind("Scale")
		}
	}
	m := printerOf(r, gvk.GroupKind())
	t := &metav1.Table{
		TypeMeta: metav1.TypeMeta{APIVersion: metav1.SchemeGroupVersion.String(), Kind: "Table"},
		ListMeta: meta,
	}
	if !opts.NoHeaders {
		t.ColumnDefinitions = m.columns()
	}
	if _, plain := m.(defaultPrinter); !plain || len(objects) > 0 {
		// nil is encoded as null, as upstream for kinds without columns of their own
		t.Rows = make([]metav1.TableRow, 0, len(objects))
	}
	if gvk.GroupKind() == flowSchema {
		objects = byPrecedence(objects)
	}
	for _, obj := range objects {
		row, err := m.row(obj, clock{now})
		if err != nil {
			return nil, err
		}
		row.Object.Object = included(obj, gvk, opts.IncludeObject)
		t.Rows = append(t.Rows, row)
	}
	return t, nil
}

func printerOf(r fake.APIResource, gk schema.GroupKind) printer {
	switch k, known := printers[gk]; {
	case known:
		return k
	case r.Custom != nil && gk != customResourceDefinition:
		return newCustomPrinter(r.Custom, r.Version)
	default:
		return defaultPrinter{}
	}
}

// customResourceDefinition has no columns of its own, although it may be installed as a custom
// kind.
var customResourceDefinition = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}

// included returns the object of a row, as includeObject asks.
func included(obj fake.Object, gvk schema.GroupVersionKind, policy metav1.IncludeObjectPolicy) runtime.Object {
	switch policy {
	case metav1.IncludeNone:
		return nil
	case metav1.IncludeObject:
		out := shallow(obj)
		out.GetObjectKind().SetGroupVersionKind(gvk)
		return out
	default:
		out := &metav1.PartialObjectMetadata{ObjectMeta: *obj.(metav1.ObjectMetaAccessor).GetObjectMeta().(*metav1.ObjectMeta)}
		out.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
		return out
	}
}

// shallow returns a shallow copy of an object.
func shallow(obj fake.Object) fake.Object {
	out := reflect.New(reflect.TypeOf(obj).Elem())
	out.Elem().Set(reflect.ValueOf(obj).Elem())
	return out.Interface().(fake.Object)
}

// clock formats ages relative to a time.
type clock struct{ now time.Time }

// unknown is the age of an object without a time.
const unknown = "<unknown>"

// since returns the time since t in human-readable form.
func (c clock) since(t metav1.Time) string {
	if t.IsZero() {
		return unknown
	}
	return duration.HumanDuration(c.now.Sub(t.Time))
}

// sinceMicro is since for microseconds.
func (c clock) sinceMicro(t metav1.MicroTime) string { return c.since(metav1.NewTime(t.Time)) }

// defaultPrinter is the printer of kinds without columns of their own.
//
// Upstream: k8s.io/apiserver/pkg/registry/rest NewDefaultTableConvertor.
type defaultPrinter struct{}

func (defaultPrinter) columns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		name, {Name: "Created At", Type: "date", Description: doc(metav1.ObjectMeta{}, "creationTimestamp")},
	}
}

func (defaultPrinter) row(obj fake.Object, _ clock) (metav1.TableRow, error) {
	created := obj.GetCreationTimestamp()
	return metav1.TableRow{Cells: []any{obj.GetName(), created.UTC().Format(time.RFC3339)}}, nil
}
