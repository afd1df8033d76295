package operator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/ctrlruntime"
	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/simtest"
	dbv1 "github.com/volsim/volsim/test/operator/api/v1"
)

// operator is the operator, as a component of a simulated cluster.
var operator = ctrlruntime.Component(ctrlruntime.Config{
	Name: "operator", Scheme: scheme, CRDDirectoryPaths: []string{"config/crd"}, Setup: setup,
})

// rule must hold after each write, and at the end. Besides, each run must end with as many claims and
// pods as the default order.
var rule = invariant.Rule{ID: "db", Forbids: "a wrong object or status", Begin: func(w invariant.World) invariant.Checks {
	return invariant.Checks{
		Commit: func(fake.Commit) error { return verify(w, false) }, AtRest: func() error { return verify(w, true) },
	}
}}

// verify compares the Databases, their claims and their pods.
func verify(w invariant.World, rest bool) error {
	for _, o := range w.API.List("databases.db.example.com") {
		var db dbv1.Database
		text, err := json.Marshal(o)
		if err := errors.Join(err, json.Unmarshal(text, &db)); err != nil {
			return err
		}
		ready, want := meta.IsStatusConditionTrue(db.Status.Conditions, dbv1.ConditionReady), db.Spec.Storage
		observed, done := db.Status.ObservedGeneration == db.Generation, w.API.Count("pods") == int(*db.Spec.Replicas)
		for _, o := range w.API.List("persistentvolumeclaims") {
			claim := o.(*corev1.PersistentVolumeClaim)
			size, bound := claim.Spec.Resources.Requests.Storage(), claim.Status.Phase == corev1.ClaimBound
			if said := db.Status.Storage; observed && said != nil && size.Cmp(*said) < 0 || rest && bound && size.Cmp(want) < 0 {
				return fmt.Errorf("claim %s requests %v, spec.storage is %v, status.storage %v", claim.Name, size, &want, said)
			}
			pod := strings.TrimPrefix(claim.Name, "data-")
			if _, exists := w.API.Get("pods", claim.Namespace, pod); exists && claim.DeletionTimestamp != nil {
				return fmt.Errorf("claim %s is deleted before pod %s is gone", claim.Name, pod)
			}
			done = done && claim.Status.Capacity.Storage().Cmp(want) >= 0
		}
		for _, o := range w.API.List("pods") {
			done = done && o.GetDeletionTimestamp() == nil && o.(*corev1.Pod).Status.Phase == corev1.PodRunning
		}
		if observed && ready && !done || rest && (!observed || ready != done) {
			return fmt.Errorf("ready is %v, should be %v; generation %d; status %+v", ready, done, db.Generation, db.Status)
		}
	}
	return nil
}

func TestStepped(t *testing.T) {
	for _, s := range []struct {
		name                string
		components, patches []string // the components that the story needs; nil: the whole control plane
		replicas            int32
	}{
		{"create", []string{}, []string{`{"metadata":{"labels":{"team":"a"}}}`}, 2},
		{"delete", []string{"pvcprotection"}, nil, 1},
		{"grow", []string{"pvcontroller", "provisioner"}, []string{`{"spec":{"replicas":2}}`, `{"spec":{"storage":"2Gi"}}`}, 1},
		{"shrink", nil, []string{`{"spec":{"replicas":1}}`}, 2},
	} {
		t.Run(s.name, func(t *testing.T) {
			simtest.Search(t, &scenario.Scenario{
				Name: s.name, Nodes: 1, Components: s.components, Extra: []cluster.Component{operator},
				Rules: []string{}, OwnRules: []invariant.Rule{rule},
				Users: []scenario.User{{Name: "alice", Script: func(ctx context.Context, c *cluster.Cluster) error {
					return act(ctx, c, s.replicas, s.patches...)
				}}},
			}, explore.Config{Restarts: true, Count: 100})
		})
	}
}
