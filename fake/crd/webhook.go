package crd

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/conversion"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/webhookclient"
)

// webhooks calls the conversion webhooks of definitions.
type webhooks struct {
	factory *conversion.CRConverterFactory
}

func newWebhooks(server *fake.Server) *webhooks {
	services := webhookclient.Services{Server: server}
	factory, err := conversion.NewCRConverterFactory(services, services.Wrap)
	if err != nil {
		panic(fmt.Sprintf("crd: create converters: %v", err)) // it has no file to read
	}
	return &webhooks{factory: factory}
}

// converterOf returns the function that calls the webhook of a definition, or nil if it has none.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver schemaCoercingConverter.
func (w *webhooks) converterOf(
	crd *apiextensionsv1.CustomResourceDefinition, versions map[string]*version,
) func([]*fake.CustomObject, string) error {
	if c := crd.Spec.Conversion; c == nil || c.Strategy != apiextensionsv1.WebhookConverter {
		return nil
	}
	_, converter, err := w.factory.NewConverter(crd)
	if err != nil {
		return func([]*fake.CustomObject, string) error { return err }
	}
	return func(objects []*fake.CustomObject, to string) error {
		review, err := reviewOf(objects)
		if err != nil {
			return err
		}
		gv := schema.GroupVersion{Group: crd.Spec.Group, Version: to}
		converted, err := converter.ConvertToVersion(review, gv)
		if err != nil {
			return err
		}
		return take(objects, converted, versions[to])
	}
}

// reviewOf returns the objects as they are sent to a webhook. As on the real server they have no
// resourceVersion.
func reviewOf(objects []*fake.CustomObject) (runtime.Object, error) {
	list := &unstructured.UnstructuredList{Items: make([]unstructured.Unstructured, len(objects))}
	for i, obj := range objects {
		bare := *obj
		bare.ResourceVersion = ""
		u, err := bare.Unstructured()
		if err != nil {
			return nil, err
		}
		list.Items[i] = *u
	}
	if len(list.Items) == 1 {
		return &list.Items[0], nil
	}
	list.SetGroupVersionKind(objects[0].GroupVersionKind()) // for errors
	return list, nil
}

// take replaces objects by what a webhook returned for them.
func take(objects []*fake.CustomObject, converted runtime.Object, to *version) error {
	items := []unstructured.Unstructured{}
	switch c := converted.(type) {
	case *unstructured.Unstructured:
		items = append(items, *c)
	case *unstructured.UnstructuredList:
		items = c.Items
	}
	for i := range items {
		u := &items[i]
		if err := objectmeta.Coerce(nil, u.Object, to.schema, false, false); err != nil {
			return err
		}
		out := &fake.CustomObject{TypeMeta: objects[i].TypeMeta, ObjectMeta: objects[i].ObjectMeta, Content: u.Object}
		out.APIVersion, out.Labels, out.Annotations = u.GetAPIVersion(), u.GetLabels(), u.GetAnnotations()
		for _, name := range []string{"apiVersion", "kind", "metadata"} {
			delete(out.Content, name)
		}
		objects[i] = out
	}
	return nil
}
