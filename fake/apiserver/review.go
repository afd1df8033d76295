package apiserver

import (
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volsim/volsim/fake"
)

// review answers the creation of a review, such as a SubjectAccessReview, or of a resource that
// does not exist.
func (r *request) review(client *fake.Clientset, t target) (answer, error) {
	all := r.h.server.Resources()
	i := slices.IndexFunc(all, func(d fake.APIResource) bool {
		return d.Group == t.Group && d.Version == t.Version && d.Name == t.Resource
	})
	if i < 0 || t.name != "" {
		return r.notFound(t)
	}
	described := all[i]
	switch {
	case described.Namespaced != (t.namespace != "") && !(described.Namespaced && r.Method != http.MethodPost):
		return r.notFound(t)
	case t.watch || r.Method != http.MethodPost:
		return answer{}, errMethod()
	}
	v := &resourceRequest{request: r, target: t, apiResource: described}
	if err := v.negotiate(); err != nil {
		return answer{}, err
	}
	obj, _, err := v.readAction(schema.GroupVersionKind{Group: t.Group, Version: t.Version, Kind: described.Kind})
	if err != nil {
		return answer{}, err
	}
	if m, ok := obj.(metav1.Object); ok {
		if err := v.setNamespace(m); err != nil {
			return answer{}, err
		}
	}
	return v.actionAnswer(client.Review(v.Context(), t.GroupVersionResource, t.namespace, obj))
}
