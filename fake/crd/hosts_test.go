package crd_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/crd"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
)

// TestBothHosts adds and deletes a definition with its objects, on a live and on a stepped host.
func TestBothHosts(t *testing.T) {
	want := []string{
		"ADDED customresourcedefinitions widgets.shop.example.com" + live,
		"ADDED widgets a",
		"MODIFIED customresourcedefinitions widgets.shop.example.com going" + begun,
		"MODIFIED customresourcedefinitions widgets.shop.example.com going" + going,
		"MODIFIED widgets a going",
		"DELETED widgets a going",
		"DELETED customresourcedefinitions widgets.shop.example.com going" + going,
	}
	for name, host := range map[string]sim.Host{
		"live": sim.NewLive(sim.LiveConfig{}), "stepped": sim.NewStepped(sim.SteppedConfig{}),
	} {
		t.Run(name, func(t *testing.T) {
			on := testworld.NewOn(t, host, fake.Config{})
			s := on.Server
			crd.Serve(s)
			w := &world{on.Hostless()}
			all := w.commits()
			c := host.Process("user")
			client := s.Client(c)
			var done sync.Mutex // of the two that follow
			var ended bool
			var failed error
			c.User("", func(ctx context.Context) {
				err := story(ctx, t, client)
				done.Lock()
				defer done.Unlock()
				ended, failed = true, err
			})
			host.Start()
			err := host.Wait(t.Context(), "the end of the story", func() bool {
				done.Lock()
				defer done.Unlock()
				return ended
			})
			if err := errors.Join(err, failed); err != nil {
				t.Fatal(err)
			}
			expect(t, want, *all)
		})
	}
}

// story creates a definition and an object, deletes the definition, and releases the object.
func story(ctx context.Context, t *testing.T, client *fake.Clientset) error {
	c, _ := client.Resource(definitions, "")
	if _, err := c.Create(ctx, object(t, read(t, "testdata/widgets.yaml")), metav1.CreateOptions{}); err != nil {
		return err
	}
	w, ok := client.Resource(widgets, "default")
	if !ok {
		return errors.New("widgets are not served")
	}
	if _, err := w.Create(ctx, object(t, `{metadata: {name: a, finalizers: [x.io/y]}, spec: {size: 1}}`),
		metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := c.Delete(ctx, "widgets.shop.example.com", metav1.DeleteOptions{}); err != nil {
		return err
	}
	_, err := w.Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	return err
}

// TestManyAtOnce checks that concurrent writers of definitions and of objects leave nothing behind.
func TestManyAtOnce(t *testing.T) {
	w := newWorld(t)
	var all sync.WaitGroup
	for _, kind := range []string{"Alpha", "Beta", "Gamma", "Delta"} {
		all.Go(func() {
			plural := map[string]string{"Alpha": "alphas", "Beta": "betas", "Gamma": "gammas", "Delta": "deltas"}[kind]
			c, _ := w.User.Resource(definitions, "")
			for range 5 {
				if _, err := c.Create(w.Context(), object(t, small(plural, kind, "")), metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
				r := widgets
				r.Resource = plural
				objects, ok := w.User.Resource(r, "")
				if !ok {
					t.Error("it is not served")
					return
				}
				if _, err := objects.Create(w.Context(), object(t, `{metadata: {name: a}}`),
					metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
				if _, err := c.Delete(w.Context(), plural+".shop.example.com", metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	expect(t, 0, w.Server.Count(crd.Definitions))
	custom := 0
	for _, r := range w.Server.Resources() {
		if r.Custom != nil {
			custom++
		}
	}
	expect(t, 1, custom)
}
