package crd

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/resourceversion"
	"github.com/volsim/volsim/sim"
)

// This file installs the same definitions in many servers: they are validated and compiled once in a
// program. A world that is explored thousands of times has them at no cost.

// A prepared definition is one that a server has accepted, and what its versions were compiled to. It is
// read-only.
type prepared struct {
	stored     *fake.CustomObject
	definition *apiextensionsv1.CustomResourceDefinition // its stored form
	versions   map[string]*version
}

var (
	// texts has the prepared definitions of each text that installShared has installed, by the text.
	texts sync.Map // of func() ([]*prepared, error)
	// bySpec has prepared definitions by the identity of the map that is their spec.
	bySpec sync.Map // of *prepared, by uintptr
)

// preparedOf returns the prepared definition that a stored one is, nil if there is none.
func preparedOf(obj *fake.CustomObject) *prepared {
	spec, ok := obj.Content["spec"].(map[string]any)
	if !ok {
		return nil
	}
	d, ok := bySpec.Load(reflect.ValueOf(spec).Pointer())
	if !ok || obj.DeletionTimestamp != nil || obj.Generation != d.(*prepared).stored.Generation {
		return nil
	}
	return d.(*prepared)
}

// installText serves definitions and creates those in a stream of YAML documents. The result is that of
// Install.
func installText(ctx context.Context, server *fake.Server, text string) error {
	return installShared(ctx, server, text, func(ctx context.Context, c *fake.Clientset) error {
		return Install(ctx, c, strings.NewReader(text))
	})
}

// installShared serves definitions and creates those that create creates. If the server has none yet, create
// is called for the first server only, and others share what it has created; text says what that is.
func installShared(ctx context.Context, server *fake.Server, text string, create func(context.Context, *fake.Clientset) error) error {
	Serve(server)
	once, _ := texts.LoadOrStore(text, sync.OnceValues(func() ([]*prepared, error) { return prepare(create) }))
	all, err := once.(func() ([]*prepared, error))()
	if err != nil || server.Count(definitionsResource) > 0 { // it may have their names
		return create(ctx, server.Client(sim.DirectCaller()))
	}
	now := server.Timestamp()
	for _, d := range all {
		if err := server.AddShared(d.at(now)); err != nil {
			return err
		}
	}
	return nil
}

// prepare creates definitions in a server of its own.
func prepare(create func(context.Context, *fake.Clientset) error) ([]*prepared, error) {
	server := fake.NewServer(fake.Config{Now: func() time.Time { return sim.Epoch }})
	Serve(server)
	if err := create(context.Background(), server.Client(sim.DirectCaller())); err != nil {
		return nil, err
	}
	objects := server.List(definitionsResource)
	slices.SortFunc(objects, func(a, b fake.Object) int {
		order, err := resourceversion.Compare(a.GetResourceVersion(), b.GetResourceVersion())
		if err != nil {
			return cmp.Compare(a.GetName(), b.GetName())
		}
		return order
	})
	all := make([]*prepared, len(objects))
	for i, obj := range objects {
		stored := obj.(*fake.CustomObject)
		definition := mustRead(stored)
		all[i] = &prepared{stored: stored, definition: definition, versions: versionsOf(definition)}
		bySpec.Store(reflect.ValueOf(stored.Content["spec"]).Pointer(), all[i])
	}
	return all, nil
}

// at returns the definition as a server stores it at a time. It shares its spec.
func (d *prepared) at(now metav1.Time) *fake.CustomObject {
	out := *d.stored
	out.UID, out.ResourceVersion, out.CreationTimestamp = "", "", now
	out.ManagedFields = slices.Clone(out.ManagedFields)
	for i := range out.ManagedFields {
		out.ManagedFields[i].Time = &now
	}
	out.Content = maps.Clone(out.Content)
	status := maps.Clone(out.Content["status"].(map[string]any))
	conditions := slices.Clone(status["conditions"].([]any))
	for i := range conditions {
		condition := maps.Clone(conditions[i].(map[string]any))
		condition["lastTransitionTime"] = now.UTC().Format(time.RFC3339)
		conditions[i] = condition
	}
	status["conditions"] = conditions
	out.Content["status"] = status
	return &out
}
