package scenario_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace/picture"
)

var widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

// widgetOperator creates a claim of the size of a widget, unless its cache has one, and reports the
// number of claims in the status of the widget. Its clients are dynamic ones that read from caches.
// If it is careful, it updates the status, which may conflict; else it patches it.
func widgetOperator(careful bool) cluster.Component {
	return cluster.Reconciler(cluster.ReconcilerConfig{
		Name: "operator", For: "widgets.example.com", Watches: []cluster.Watch{{Resource: "persistentvolumeclaims"}},
		Build: func(p cluster.ComponentContext) (cluster.Reconcile, error) {
			client, err := dynamic.NewForConfig(p.RESTConfig())
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
				of := client.Resource(widgets).Namespace(key.Namespace)
				widget, err := of.Get(ctx, key.Name, metav1.GetOptions{})
				if err != nil {
					return 0, ignoreNotFound(err)
				}
				claims := p.Client.CoreV1().PersistentVolumeClaims(key.Namespace)
				all, err := claims.List(ctx, metav1.ListOptions{LabelSelector: "widget=" + key.Name})
				if err != nil {
					return 0, err
				}
				if len(all.Items) == 0 {
					size, _, _ := unstructured.NestedString(widget.Object, "spec", "size")
					claim := cluster.NewClaim("", size)
					claim.GenerateName, claim.Labels = key.Name+"-", map[string]string{"widget": key.Name}
					claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(widget, widgets.GroupVersion().WithKind("Widget"))}
					if _, err := claims.Create(ctx, claim, metav1.CreateOptions{}); err != nil {
						return 0, err
					}
				}
				if careful {
					_ = unstructured.SetNestedField(widget.Object, int64(len(all.Items)), "status", "claims")
					_, err = of.UpdateStatus(ctx, widget, metav1.UpdateOptions{})
					return 0, err
				}
				patch := fmt.Sprintf(`{"status":{"claims":%d}}`, len(all.Items))
				_, err = of.Patch(ctx, key.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
				return 0, err
			}, nil
		},
	})
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// oneClaim forbids two claims of one widget, and names none of them.
func oneClaim(how string) invariant.Rule {
	return invariant.Rule{ID: "one-claim", Forbids: "two claims of one widget", Begin: func(w invariant.World) invariant.Checks {
		check := func() error {
			if n := len(w.API.List("persistentvolumeclaims")); n > 1 {
				return fmt.Errorf("there are %d", n)
			}
			return nil
		}
		if how == "rest" {
			return invariant.Checks{AtRest: check}
		}
		return invariant.Checks{Commit: func(fake.Commit) error { return check() }}
	}}
}

// grow reads a widget and writes it with another size, as two users might at once.
func grow(ctx context.Context, c *cluster.Cluster) error {
	client, err := dynamic.NewForConfig(c.RESTConfig())
	if err != nil {
		return err
	}
	of := client.Resource(widgets).Namespace("default")
	widget, err := of.Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := unstructured.SetNestedField(widget.Object, "4Gi", "spec", "size"); err != nil {
		return err
	}
	_, err = of.Update(ctx, widget, metav1.UpdateOptions{})
	return err
}

const grownWidget = `definitions: widgets.yaml
user alice
  apply {apiVersion: example.com/v1, kind: Widget, metadata: {name: web}, spec: {size: 1Gi}}
  patch widget web spec.size=2Gi spec.replicas=3
`

// Stories and pictures of the test's own components and users tell what they write, to custom
// resources, too, and the reads that explain it.
func TestStoriesOfReads(t *testing.T) {
	for _, c := range []struct {
		name, text string
		schedule   string // "": the first one that fails
		change     func(s *scenario.Scenario)
	}{
		{
			"stale-list", "components: none\n" + grownWidget, "", // the rule names no object
			func(s *scenario.Scenario) {
				s.Extra, s.OwnRules = []cluster.Component{widgetOperator(false)}, []invariant.Rule{oneClaim("commit")}
			},
		},
		{
			"stale-list-at-rest", "components: pvcontroller, provisioner\n" + grownWidget, "",
			func(s *scenario.Scenario) {
				s.Extra, s.OwnRules = []cluster.Component{widgetOperator(true)}, []invariant.Rule{oneClaim("rest")}
			},
		},
		{
			"stale-get-conflict", "components: none\n" + grownWidget, "8 hold: operator/cache widgets",
			func(s *scenario.Scenario) { s.Extra = []cluster.Component{widgetOperator(true)} },
		},
		{
			"lost-update", "components: none\n" + grownWidget, "6 pick: alice",
			func(s *scenario.Scenario) { s.Extra = []cluster.Component{widgetOperator(false)} },
		},
		{
			"conflict-of-a-script", "components: none\n" + grownWidget + "user bob\n  wait widget web exists\n", "",
			func(s *scenario.Scenario) { s.Users[1].Script = grow },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := scenario.Parse(c.name, c.text)
			testcheck.NoError(t, err)
			s.Dir, s.OutcomesDiffer, s.Rules = widgetFiles(t), true, []string{}
			c.change(s)
			var r *scenario.Result
			if c.schedule == "" {
				report, err := explore.Search(t.Context(), s, explore.Config{Strategy: explore.Holds, Depth: 2})
				testcheck.NoError(t, err)
				if report.Failure == nil {
					t.Fatalf("%+v", report)
				}
				s, r = report.Failure.Scenario, report.Failure.Result
			} else {
				schedule, err := sim.ParseSchedule(c.schedule)
				testcheck.NoError(t, err)
				s = s.WithSchedule(schedule, "")
				r, err = s.Run(t.Context(), scenario.Options{})
				testcheck.NoError(t, err)
				if r.Mismatch != "" {
					t.Error(r.Mismatch)
				}
			}
			records, o := r.Trace.Records(), scenario.Picture(s, r)
			golden(t, "reads/"+c.name, strings.Join([]string{
				s.String(), scenario.Story(s, r), picture.SpaceTime(records, o).Text(), picture.Timeline(records, o).Text(),
			}, "\n"))
		})
	}
}
