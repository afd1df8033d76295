package admission

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/internal/admit"
)

// attributesOf returns a request as upstream's code takes it. Custom objects are unstructured.
func attributesOf(r *admit.Request) (admission.Attributes, error) {
	obj, err := exposed(r.Object)
	if err != nil {
		return nil, err
	}
	old, err := exposed(r.OldObject)
	if err != nil {
		return nil, err
	}
	return admission.NewAttributesRecord(obj, old, r.Kind, r.Namespace, r.Name, r.Resource, r.Subresource,
		admission.Operation(r.Operation), r.Options, r.DryRun, userOf(&r.User)), nil
}

// userOf returns a user as upstream's code takes it.
func userOf(u *authenticationv1.UserInfo) user.Info {
	extra := make(map[string][]string, len(u.Extra))
	for name, values := range u.Extra {
		extra[name] = values
	}
	return &user.DefaultInfo{Name: u.Username, UID: u.UID, Groups: u.Groups, Extra: extra}
}

// exposed returns an object as upstream's code takes it.
func exposed(obj runtime.Object) (runtime.Object, error) {
	if c, ok := obj.(*fake.CustomObject); ok {
		return c.Unstructured()
	}
	return obj, nil
}

// versioned returns a request with its objects in the version of kind, which is one in which the resource is served.
//
// Upstream: k8s.io/apiserver/pkg/admission NewVersionedAttributes.
func versioned(r *admit.Request, attributes admission.Attributes, kind schema.GroupVersionKind) (*admission.VersionedAttributes, error) {
	out := &admission.VersionedAttributes{
		Attributes: attributes, VersionedKind: kind, VersionedObject: attributes.GetObject(), VersionedOldObject: attributes.GetOldObject(),
	}
	if kind == r.Kind {
		return out, nil
	}
	for _, v := range r.Versions {
		if v.Kind != kind {
			continue
		}
		var err error
		if out.VersionedObject, err = convert(r.Object, v.Convert); err == nil {
			out.VersionedOldObject, err = convert(r.OldObject, v.Convert)
		}
		return out, err
	}
	return nil, apierrors.NewInternalError(errUnknownKind(kind))
}

// convert converts an object, or none.
func convert(obj runtime.Object, by func(runtime.Object) (runtime.Object, error)) (runtime.Object, error) {
	if obj == nil {
		return nil, nil
	}
	out, err := by(obj)
	if err != nil {
		return nil, err
	}
	return exposed(out)
}

// replace replaces the object of a request by one in the version of kind.
func replace(r *admit.Request, obj runtime.Object, kind schema.GroupVersionKind) error {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		c := &fake.CustomObject{}
		data, err := u.MarshalJSON()
		if err != nil {
			return err
		}
		if err := c.UnmarshalJSON(data); err != nil {
			return err
		}
		obj = c
	}
	for _, v := range r.Versions {
		if v.Kind == kind && kind != r.Kind {
			var err error
			if obj, err = v.Restore(obj); err != nil {
				return err
			}
		}
	}
	return r.Replace(obj)
}
