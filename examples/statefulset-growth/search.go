package growth

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/sim"
)

// A change is what a user does with the database shop: how it is created, and how it is patched once
// its claims are bound.
type change struct {
	name, created, patch string
	claims               int // how many the database has when it is created
}

var (
	grows       = change{"grows", `{replicas: "2", data: 1Gi}`, `{"data":{"data":"2Gi"}}`, 2}
	growsScales = change{"grows-and-scales-in", `{replicas: "2", data: 1Gi}`, `{"data":{"data":"2Gi","replicas":"1"}}`, 2}
	shrinksOne  = change{
		"grows-and-shrinks", `{replicas: "1", data: 1Gi, wal: 2Gi}`, `{"data":{"data":"2Gi","wal":"1Gi","replicas":"2"}}`, 2,
	}
)

// A search is a world and how it is searched.
type search struct {
	change change
	two    bool // a second operator is active, as while the first does not know yet that it is replaced
	config explore.Config
}

// searches are those in which the bugs are found.
var searches = map[Design]search{
	TemplateFirst:     {grows, false, explore.Config{Strategy: explore.Restarts, Count: 80}},
	InMemory:          {growsScales, false, explore.Config{Strategy: explore.Restarts, Count: 80}},
	ByName:            {grows, true, explore.Config{Strategy: explore.Holds, Count: 200}},
	ClampedByTemplate: {shrinksOne, false, explore.Config{Count: 20}},
}

// Search searches the world in which a design has its bug, and returns the bug. nil means that there is
// none. Fixed is searched in the worlds of all others.
func Search(ctx context.Context, d Design) (*explore.Failure, error) {
	worlds := []Design{d}
	if d == Fixed {
		worlds = []Design{TemplateFirst, InMemory, ByName, ClampedByTemplate}
	}
	for _, of := range worlds {
		s := searches[of]
		report, err := explore.Search(ctx, s.world(d), s.config)
		if err != nil || report.Failure != nil {
			return report.Failure, err
		}
	}
	return nil, nil
}

// world returns a world with a database, its operator, and what a set and its claims need.
func (s search) world(d Design) *scenario.Scenario {
	w := &scenario.Scenario{
		Name: string(d) + "-" + s.change.name, Nodes: 1,
		Components: []string{"pvcontroller", "provisioner", "statefulset", "garbagecollector"},
		Extra:      []cluster.Component{Operator(d)},
		Rules:      []string{}, OwnRules: rules, OutcomesDiffer: true,
		Users: []scenario.User{{Name: "alice", Script: s.change.script}},
	}
	if s.two {
		w.Users = append(w.Users, scenario.User{Name: "admin", Script: replicate})
	}
	return w
}

// replicate starts a second operator.
func replicate(_ context.Context, w *cluster.Cluster) error {
	if !w.Host().(*sim.Stepped).Inject("replicate operator") {
		return errors.New("there is no operator")
	}
	return nil
}

func (c change) script(ctx context.Context, w *cluster.Cluster) error {
	manifest := "{apiVersion: v1, kind: ConfigMap, metadata: {name: shop}, data: " + c.created + "}"
	if err := w.Apply(ctx, manifest); err != nil {
		return err
	}
	err := w.Wait(ctx, "bound claims", func() bool {
		bound := 0
		for _, obj := range w.Server().List("persistentvolumeclaims") {
			if obj.(*corev1.PersistentVolumeClaim).Status.Phase == corev1.ClaimBound {
				bound++
			}
		}
		return bound == c.claims
	})
	if err != nil {
		return err
	}
	_, err = w.Client().CoreV1().ConfigMaps(metav1.NamespaceDefault).
		Patch(ctx, "shop", types.MergePatchType, []byte(c.patch), metav1.PatchOptions{})
	return err
}

// rules are what the operators promise.
var rules = []invariant.Rule{
	{ID: "grown", Forbids: "at rest, a claim that is smaller than its database says", Begin: func(w invariant.World) invariant.Checks {
		return invariant.Checks{AtRest: func() error {
			db, ok := w.API.Get("configmaps", metav1.NamespaceDefault, "shop")
			if !ok {
				return nil
			}
			wanted := wantedSizes(db.(*corev1.ConfigMap))
			for _, obj := range w.API.List("persistentvolumeclaims") {
				claim := obj.(*corev1.PersistentVolumeClaim)
				if has, wants := claim.Spec.Resources.Requests.Storage(), wanted[volumeOf(claim)]; has.Cmp(wants) < 0 {
					return fmt.Errorf("claim default/%s requests %s, configmap default/shop says %s", claim.Name, has, &wants)
				}
			}
			return nil
		}}
	}},
	{ID: "drained", Forbids: "a pod is deleted that has data", Begin: onCommit("pods", func(_ invariant.World, e fake.Commit) error {
		if pod := e.After; isDeletion(e) && pod.GetAnnotations()[drainedAnnotation] == "" {
			return fmt.Errorf("pod default/%s is deleted before its data has been moved", pod.GetName())
		}
		return nil
	})},
	{ID: "once", Forbids: "a set is deleted that has the sizes that its database wants", Begin: onCommit("statefulsets",
		func(w invariant.World, e fake.Commit) error {
			db, ok := w.API.Get("configmaps", metav1.NamespaceDefault, "shop")
			set := e.After.(*appsv1.StatefulSet)
			if ok && isDeletion(e) && !templateSizes(set).lessThan(wantedSizes(db.(*corev1.ConfigMap))) {
				return fmt.Errorf("statefulset default/%s is deleted although it has the sizes that configmap default/shop wants", set.Name)
			}
			return nil
		})},
	{ID: "floor", Forbids: "a set is created whose pods get smaller volumes than they have", Begin: onCommit("statefulsets",
		func(w invariant.World, e fake.Commit) error {
			if set := e.After.(*appsv1.StatefulSet); e.Before == nil && templateSizes(set).lessThan(claimSizes(w)) {
				return fmt.Errorf("statefulset default/%s is created with smaller claim templates than its claims are", set.Name)
			}
			return nil
		})},
}

// onCommit returns the beginning of a rule that checks each change of a resource.
func onCommit(resource string, check func(invariant.World, fake.Commit) error) func(invariant.World) invariant.Checks {
	return func(w invariant.World) invariant.Checks {
		return invariant.Checks{Commit: func(e fake.Commit) error {
			if e.Resource != resource {
				return nil
			}
			return check(w, e)
		}}
	}
}

// isDeletion reports whether an object is deleted, or begins to be.
func isDeletion(e fake.Commit) bool {
	return e.Before != nil && e.Before.GetDeletionTimestamp() == nil && (e.After.GetDeletionTimestamp() != nil || e.Type == "DELETED")
}

// claimSizes returns the largest size of the claims of each volume.
func claimSizes(w invariant.World) sizes {
	var claims []corev1.PersistentVolumeClaim
	for _, obj := range w.API.List("persistentvolumeclaims") {
		claims = append(claims, *obj.(*corev1.PersistentVolumeClaim))
	}
	return largest(claims)
}
