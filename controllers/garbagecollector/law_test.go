package garbagecollector_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

// everything returns the objects of all kinds in these worlds.
func (w *world) everything() []fake.Object {
	return slices.Concat(w.Server.List("configmaps"), w.Server.List("nodes"), w.Server.List("widgets.example.com"))
}

// owners returns which of an object's owners exist, and which of those wait for it.
func (w *world) owners(obj fake.Object) (solid, waiting []string) {
	for _, ref := range obj.GetOwnerReferences() {
		for _, owner := range w.everything() {
			in := owner.GetNamespace() == "" || owner.GetNamespace() == obj.GetNamespace()
			if !in || owner.GetUID() != ref.UID || owner.GetName() != ref.Name {
				continue
			}
			if owner.GetDeletionTimestamp() != nil && slices.Contains(owner.GetFinalizers(), "foregroundDeletion") {
				waiting = append(waiting, ref.Name)
			} else {
				solid = append(solid, ref.Name)
			}
		}
	}
	return solid, waiting
}

// watchOver fails the test if the collector deletes an object that has an owner.
func (w *world) watchOver() {
	w.Server.OnCommit(func(c fake.Commit) {
		begun := c.Type == watch.Deleted || c.Before != nil && c.Before.GetDeletionTimestamp() == nil &&
			c.After.GetDeletionTimestamp() != nil
		if solid, _ := w.owners(c.After); w.doing == "delete" && begun && len(solid) > 0 {
			w.Errorf("%s %s was collected, though it has the owners %v", c.Resource, c.After.GetName(), solid)
		}
	})
}

// atRest returns the objects that must not exist at rest.
func (w *world) atRest() []string {
	var wrong []string
	for _, obj := range w.everything() {
		solid, waiting := w.owners(obj)
		owned := len(obj.GetOwnerReferences()) > 0 && obj.GetNamespace() != ""
		name := obj.GetNamespace() + "/" + obj.GetName()
		switch {
		case owned && len(solid)+len(waiting) == 0 && obj.GetDeletionTimestamp() == nil:
			wrong = append(wrong, name+" has no owner any more")
		case owned && obj.GetDeletionTimestamp() == nil && len(solid) > 0 &&
			len(obj.GetOwnerReferences()) > len(solid)+len(waiting):
			wrong = append(wrong, name+" refers to owners that are no more")
		case obj.GetDeletionTimestamp() != nil && slices.Contains(obj.GetFinalizers(), "orphan"):
			wrong = append(wrong, name+" was not released")
		case obj.GetDeletionTimestamp() != nil && slices.Contains(obj.GetFinalizers(), "foregroundDeletion") &&
			!w.blocked(obj):
			wrong = append(wrong, name+" waits without a reason")
		}
	}
	return wrong
}

func (w *world) blocked(owner fake.Object) bool {
	return slices.ContainsFunc(w.everything(), func(obj fake.Object) bool {
		return slices.ContainsFunc(obj.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
			return ref.UID == owner.GetUID() && ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion
		})
	})
}

// meddling is a user that makes random requests, also about objects that do not exist.
type meddling struct {
	w      *world
	chance *sim.Seeded
	client *fake.Clientset
}

var shorts = []string{"a", "b", "c", "d", "other/a", "other/e", "Node/n", "Node/m", "Widget/x", "Widget/y"}

func (m meddling) pick() string { return shorts[m.chance.Choose(len(shorts))] }

// owner returns a reference to an object, correct or not.
func (m meddling) owner() string {
	owner := m.pick()
	_, name, client := m.w.place(owner)
	if _, err := client.Get(ctx, name, metav1.GetOptions{}); err != nil {
		owner += "?"
	}
	if m.chance.Choose(2) == 0 {
		owner += "!"
	}
	return owner
}

func (m meddling) act(ctx context.Context) {
	short := m.pick()
	_, name, at := m.w.place(short)
	r, ok := m.client.Resource(schema.GroupVersionResource{
		Group: at.Describe().Group, Version: "v1", Resource: at.Describe().Name,
	}, namespaceOf(short))
	if !ok {
		m.w.Fatal("not served: ", short)
	}
	var err error
	switch m.chance.Choose(4) {
	case 0, 1:
		var owners []string
		for range m.chance.Choose(3) {
			if owner := m.owner(); !slices.ContainsFunc(owners,
				func(o string) bool { return strings.Trim(o, "!?") == strings.Trim(owner, "!?") }) {
				owners = append(owners, owner)
			}
		}
		obj, _ := m.w.newObject(short, owners...)
		_, err = r.Create(ctx, obj, metav1.CreateOptions{})
	case 2:
		policy := []metav1.DeletionPropagation{background, foreground, orphan}[m.chance.Choose(3)]
		_, err = r.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &policy})
	case 3:
		ref := m.w.reference(m.owner())
		data := fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":%q,"kind":%q,"name":%q,"uid":%q,"blockOwnerDeletion":%v}]}}`,
			ref.APIVersion, ref.Kind, ref.Name, ref.UID, ref.BlockOwnerDeletion != nil)
		_, err = r.Patch(ctx, name, types.MergePatchType, []byte(data), metav1.PatchOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) {
		m.w.Errorf("%s: %v", short, err)
	}
}

func namespaceOf(short string) string {
	switch {
	case strings.HasPrefix(short, "Node/"):
		return ""
	case strings.HasPrefix(short, "other/"):
		return "other"
	default:
		return "default"
	}
}

// Under any workload and with any cache lag, no object with an owner is collected, and none remains
// at rest that should be. A restart does not change that.
func TestNothingOwnedIsCollectedAndNothingElseRemains(t *testing.T) {
	for seed := range uint64(400) {
		w := newWorld(t, sim.NewSeeded(seed))
		w.watchOver()
		for round := range uint64(2) {
			for i := range uint64(2) {
				users := w.Host.Process(fmt.Sprint("user", i))
				m := meddling{w: w, chance: sim.NewSeeded(1000*seed + 10*round + i), client: w.Server.Client(users)}
				users.User("", func(ctx context.Context) {
					for range 8 {
						m.act(ctx)
					}
				})
			}
			if round == 0 {
				for range 10 + seed%40 {
					w.Host.(*sim.Stepped).Step()
				}
				w.restart(sim.NewSeeded(seed + 1))
			}
		}
		w.Run()
		if wrong := w.atRest(); len(wrong) > 0 || t.Failed() {
			t.Fatalf("seed %d: %v; left: %s\n%s", seed, wrong, w.left(), w.Host.Log().Text())
		}
	}
}
