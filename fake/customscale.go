package fake

import (
	"maps"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// newCustomScale returns the kind that shows the objects of a custom resource as a Scale.
//
// Differs: an object without spec replicas is shown with 0; the real server answers 500.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresource ScaleREST.
func newCustomScale(of *kind, at *ScalePaths) *kind {
	k := newKind(strategy[*autoscalingv1.Scale]{
		resource: of.resource, gvk: autoscalingv1.SchemeGroupVersion.WithKind("Scale"), namespaced: of.namespaced,
	}, func(metav1.ListMeta, []autoscalingv1.Scale) runtime.Object { panic("fake: Scale has no list") })
	k.id, k.base = of.id, of
	k.scaledBy = of.custom.scaledBy()
	k.fromStored = func(stored Object) (Object, error) {
		obj, err := of.fromStored(stored)
		if err != nil {
			return nil, err
		}
		return at.scaleOf(obj.(*CustomObject)), nil
	}
	k.toStored = func(shown, stored Object) (Object, error) {
		scale := shown.(*autoscalingv1.Scale)
		if err := k.checkScale(scale, stored); err != nil {
			return nil, err
		}
		shown, err := of.fromStored(stored)
		if err != nil {
			return nil, err
		}
		obj := shown.DeepCopyObject().(*CustomObject)
		if err := unstructured.SetNestedField(obj.Content, int64(scale.Spec.Replicas),
			pathOf(at.SpecReplicas)...); err != nil {
			return nil, internalError(err.Error())
		}
		obj.ResourceVersion = scale.ResourceVersion
		if obj.ResourceVersion == "" {
			obj.ResourceVersion = stored.GetResourceVersion()
		}
		return obj, k.takeManaged(obj, stored, scale)
	}
	return k
}

// scaledBy returns the path of the spec replicas in each version.
func (c *CustomKind) scaledBy() managedfields.ResourcePathMappings {
	out := managedfields.ResourcePathMappings{}
	for _, v := range c.Versions {
		if at := c.Scale(v); at != nil {
			var path fieldpath.Path
			for _, name := range pathOf(at.SpecReplicas) {
				path = append(path, fieldpath.PathElement{FieldName: &name})
			}
			out[schema.GroupVersion{Group: c.Group, Version: v}.String()] = path
		}
	}
	return out
}

// scaleOf returns an object as a Scale. Fields that are missing or of another type are zero.
func (at *ScalePaths) scaleOf(obj *CustomObject) *autoscalingv1.Scale {
	content := maps.Clone(obj.Content)
	wanted, _, _ := unstructured.NestedInt64(content, pathOf(at.SpecReplicas)...)
	replicas, _, _ := unstructured.NestedInt64(content, pathOf(at.StatusReplicas)...)
	selector := ""
	if at.LabelSelector != "" {
		selector, _, _ = unstructured.NestedString(content, pathOf(at.LabelSelector)...)
	}
	return &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{
			Name: obj.Name, Namespace: obj.Namespace, UID: obj.UID, ResourceVersion: obj.ResourceVersion,
			CreationTimestamp: obj.CreationTimestamp,
		},
		Spec:   autoscalingv1.ScaleSpec{Replicas: int32(wanted)},
		Status: autoscalingv1.ScaleStatus{Replicas: int32(replicas), Selector: selector},
	}
}
