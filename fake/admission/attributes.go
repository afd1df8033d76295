package admission

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/internal/admit"
)

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

// replace replaces the object of a request by one in the version of kind.
func replace(r *admit.Request, obj runtime.Object, kind schema.GroupVersionKind) error {
	obj, err := concealed(obj)
	if err != nil {
		return err
	}
	for _, v := range r.Versions {
		if v.Kind == kind && kind != r.Kind {
			if obj, err = v.Restore(obj); err != nil {
				return err
			}
		}
	}
	return r.Replace(obj)
}
