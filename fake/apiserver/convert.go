package apiserver

import (
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/internal/table"
)

// objectAnswer answers with one object, converted as negotiated.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers transformResponseObject.
func (v *resourceRequest) objectAnswer(code int, client fake.ResourceClient, obj fake.Object) (answer, error) {
	var out runtime.Object
	switch convert := v.form.convert; {
	case convert == nil:
		var err error
		if out, err = v.full(obj, client.GroupVersionKind()); err != nil {
			return answer{}, err
		}
	case convert.Kind == "PartialObjectMetadata":
		out = partial(obj, convert.GroupVersion())
	case convert.Kind == "PartialObjectMetadataList":
		return answer{}, notAcceptable("you requested PartialObjectMetadataList, but the requested object is not a list (*%s.%s)",
			internalPackage(v.Group), client.GroupVersionKind().Kind)
	default:
		opts, err := v.tableOptions()
		if err != nil {
			return answer{}, err
		}
		out, err = v.table(client, metav1.ListMeta{ResourceVersion: obj.GetResourceVersion()}, []fake.Object{obj}, opts)
		if err != nil {
			return answer{}, err
		}
	}
	return v.encodedAnswer(code, v.form, out)
}

// listAnswer answers with a list of objects, converted as negotiated.
func (v *resourceRequest) listAnswer(all fake.ObjectList) (answer, error) {
	var out runtime.Object
	switch convert := v.form.convert; {
	case convert == nil:
		var err error
		if out, err = v.goType(v.fullList(all)); err != nil {
			return answer{}, err
		}
	case convert.Kind == "PartialObjectMetadataList":
		gv := convert.GroupVersion()
		list := &metav1.PartialObjectMetadataList{ListMeta: all.ListMeta, Items: []metav1.PartialObjectMetadata{}}
		list.SetGroupVersionKind(gv.WithKind("PartialObjectMetadataList"))
		for _, obj := range all.Objects {
			list.Items = append(list.Items, *partial(obj, gv))
		}
		out = list
	case convert.Kind == "PartialObjectMetadata":
		return answer{}, notAcceptable("you requested PartialObjectMetadata, but the requested object is a list (*%s.%sList)",
			internalPackage(v.Group), v.client.GroupVersionKind().Kind)
	default:
		opts, err := v.tableOptions()
		if err != nil {
			return answer{}, err
		}
		if out, err = v.table(v.client, all.ListMeta, all.Objects, opts); err != nil {
			return answer{}, err
		}
	}
	return v.encodedAnswer(http.StatusOK, v.form, out)
}

// fullList returns the resource's list with apiVersion and kind.
func (v *resourceRequest) fullList(all fake.ObjectList) runtime.Object {
	gvk := v.client.GroupVersionKind()
	list := v.client.ListOf(all)
	if l, ok := list.(*fake.CustomList); ok {
		for i, c := range l.Items {
			l.Items[i] = withKind(c, gvk).(*fake.CustomObject)
		}
		l.APIVersion = gvk.GroupVersion().String()
		if l.Kind == "" {
			l.Kind = gvk.Kind + "List"
		}
		return l
	}
	list.GetObjectKind().SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	return list
}

// partial returns the metadata of an object.
func partial(obj fake.Object, gv schema.GroupVersion) *metav1.PartialObjectMetadata {
	out := meta.AsPartialObjectMetadata(obj)
	out.SetGroupVersionKind(gv.WithKind("PartialObjectMetadata"))
	return out
}

// table returns objects as a table of the requested version.
func (v *resourceRequest) table(
	client fake.ResourceClient, m metav1.ListMeta, objects []fake.Object, opts metav1.TableOptions,
) (*metav1.Table, error) {
	gv := v.form.convert.GroupVersion()
	now := v.h.caller(v.Request).Now()
	out, err := table.New(client.Describe(), m, objects, now, opts)
	if err != nil {
		return nil, err
	}
	out.SetGroupVersionKind(gv.WithKind("Table"))
	for _, row := range out.Rows {
		if m, ok := row.Object.Object.(*metav1.PartialObjectMetadata); ok {
			m.SetGroupVersionKind(gv.WithKind("PartialObjectMetadata"))
		}
	}
	return out, nil
}

func notAcceptable(format string, args ...any) error {
	return newStatusError(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable, fmt.Sprintf(format, args...), nil)
}
