// Package admission is the stand-in of the package on main, where the rest of it is written.
package admission

import (
	"context"
	"slices"
	"sync/atomic"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

// Serve makes a server evaluate policies, before the server is used.
func Serve(server *fake.Server) { server.SetAdmitter(&admitter{newPolicies(server)}) }

type admitter struct{ policies *policies }

var _ fake.Admitter = (*admitter)(nil)

// Admits implements fake.Admitter.
func (a *admitter) Admits() bool { return a.policies.active() }

// Mutate implements fake.Admitter.
func (a *admitter) Mutate(ctx context.Context, r *fake.AdmissionRequest) error {
	return a.policies.mutate(ctx, r)
}

// Validate implements fake.Admitter.
func (a *admitter) Validate(ctx context.Context, r *fake.AdmissionRequest) error {
	return a.policies.validate(ctx, r)
}

// ValidateConfiguration implements fake.Admitter.
func (a *admitter) ValidateConfiguration(obj, old fake.Object) field.ErrorList {
	return a.policies.validateConfiguration(obj, old)
}

const group = "admissionregistration.k8s.io"

// kept is something that is made of the stored objects of some resources, and made again when one of them has changed.
type kept[T any] struct {
	make       func() T
	generation atomic.Int64 // number of changes
	made       atomic.Pointer[keptValue[T]]
}

type keptValue[T any] struct {
	value      T
	generation int64
}

func newKept[T any](server *fake.Server, create func() T, resources ...string) *kept[T] {
	k := &kept[T]{make: create}
	server.OnCommit(func(c fake.Commit) {
		if slices.Contains(resources, c.Resource) {
			k.generation.Add(1)
		}
	})
	return k
}

func (k *kept[T]) get() T {
	generation := k.generation.Load()
	if v := k.made.Load(); v != nil && v.generation == generation {
		return v.value
	}
	v := &keptValue[T]{value: k.make(), generation: generation}
	k.made.Store(v)
	return v.value
}

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
func replace(r *fake.AdmissionRequest, obj runtime.Object, kind schema.GroupVersionKind) error {
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

// access decides for expressions what users may do.
type access struct{ server *fake.Server }

// Authorize implements the authorizer of k8s.io/apiserver.
func (a access) Authorize(_ context.Context, asked authorizer.Attributes) (authorizer.Decision, string, error) {
	by := asked.GetUser()
	info := authenticationv1.UserInfo{Username: by.GetName(), UID: by.GetUID(), Groups: by.GetGroups()}
	request := authorizationv1.SelfSubjectAccessReviewSpec{}
	if asked.IsResourceRequest() {
		request.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Namespace: asked.GetNamespace(), Verb: asked.GetVerb(), Group: asked.GetAPIGroup(), Version: asked.GetAPIVersion(),
			Resource: asked.GetResource(), Subresource: asked.GetSubresource(), Name: asked.GetName(),
		}
	} else {
		request.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: asked.GetPath(), Verb: asked.GetVerb()}
	}
	if err := a.server.Client(sim.DirectCaller()).AsUser(info).Authorize(request); err != nil {
		return authorizer.DecisionNoOpinion, err.Error(), nil
	}
	return authorizer.DecisionAllow, "", nil
}
