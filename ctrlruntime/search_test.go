package ctrlruntime_test

import (
	"context"
	"fmt"
	"regexp"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/invariant"
)

// oneSecret forbids two Secrets of one box.
func oneSecret() invariant.Rule {
	return invariant.Rule{ID: "U1", Forbids: "two secrets of one box", Begin: func(invariant.World) invariant.Checks {
		secrets := map[string]string{}
		return invariant.Checks{Commit: func(e fake.Commit) error {
			secret, ok := e.After.(*corev1.Secret)
			if !ok {
				return nil
			}
			box := secret.Labels["box"]
			if other := secrets[box]; other != "" && other != secret.Name {
				return fmt.Errorf("secrets %s and %s of box %s", other, secret.Name, box)
			}
			secrets[box] = secret.Name
			return nil
		}}
	}}
}

// staleRead matches the line of a story that explains why there are two children.
var staleRead = regexp.MustCompile(`operator lists the secrets of default in its cache: none found .*; it has not seen step \d+, where it created secret default/a-\w+ itself`)

// A search finds that the reconciler creates two children when its cache lacks the first one. With a
// client that reads its own writes there is no such schedule.
func TestSearch(t *testing.T) {
	for _, reads := range []fake.Reads{fake.ReadCache, fake.ReadYourWrites} {
		t.Run("reads "+string(reads), func(t *testing.T) {
			s := &scenario.Scenario{
				Name: "boxes", Components: []string{}, Extra: []cluster.Component{boxes(reads, nil)},
				OwnRules: []invariant.Rule{oneSecret()}, OutcomesDiffer: true,
				Users: []scenario.User{{Name: "user", Script: func(ctx context.Context, c *cluster.Cluster) error {
					boxes, err := client.New(c.RESTConfig(), client.Options{Scheme: scheme})
					if err != nil {
						return err
					}
					box := newBox("a", "")
					box.Namespace = "default"
					if err := boxes.Create(ctx, box); err != nil {
						return err
					}
					metav1.SetMetaDataLabel(&box.ObjectMeta, "changed", "yes")
					return boxes.Update(ctx, box)
				}}},
			}
			report, err := explore.Search(t.Context(), s, explore.Config{Strategy: explore.Holds, Depth: 1})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d schedules, %s, %v", report.Schedules, report.Complete, report.Failure)
			if found := report.Failure != nil; found != (reads == fake.ReadCache) {
				t.Errorf("found: %v, %v", found, report.Failure)
			}
			if report.Failure != nil && (report.Failure.Schedules > 30 || report.Failure.Scenario.Violates != "U1") {
				t.Errorf("%q in schedule %d", report.Failure.Scenario.Violates, report.Failure.Schedules)
			}
			if f := report.Failure; f != nil {
				story := scenario.Story(f.Scenario, f.Result)
				if !staleRead.MatchString(story) {
					t.Errorf("the story does not name the stale read:\n%s", story)
				}
			}
		})
	}
}
