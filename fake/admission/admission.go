package admission

import (
	"context"
	"slices"
	"sync/atomic"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/internal/admit"
)

// Serve makes a server evaluate policies, before the server is used.
func Serve(server *fake.Server) { server.SetAdmitter(&admitter{newPolicies(server)}) }

type admitter struct{ policies *policies }

var _ admit.Admitter = (*admitter)(nil)

// Admits reports whether a policy has a binding.
func (a *admitter) Admits() bool { return a.policies.active() }

// Mutate implements admit.Admitter.
func (a *admitter) Mutate(ctx context.Context, r *admit.Request) error {
	state, ok := r.State.(*passes)
	if !ok {
		state = &passes{}
		r.State = state
	}
	return a.policies.mutate(ctx, r, state)
}

// Validate implements admit.Admitter.
func (a *admitter) Validate(ctx context.Context, r *admit.Request) error {
	return a.policies.validate(ctx, r)
}

// ValidateConfiguration implements admit.Admitter.
func (a *admitter) ValidateConfiguration(obj, old runtime.Object) field.ErrorList {
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
