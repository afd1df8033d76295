package scenario_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/scenario"
)

var update = flag.Bool("update", false, "write the stories to testdata")

// Each story is of the first failure that a search of a world with something broken in it comes to.
func TestStories(t *testing.T) {
	rules := func(ids ...string) func(*scenario.Scenario) {
		return func(s *scenario.Scenario) { s.Rules = ids }
	}
	between := func(b cluster.Between) func(*scenario.Scenario) {
		return func(s *scenario.Scenario) { s.Between = b }
	}
	extra := func(parts ...cluster.Part) func(*scenario.Scenario) {
		return func(s *scenario.Scenario) { s.Extra = parts }
	}
	type broken []func(*scenario.Scenario)
	twice := func(s *scenario.Scenario) {
		act, err := scenario.ParseAct("let replicate pvcontroller")
		if err != nil {
			t.Fatal(err)
		}
		s.Users = append(s.Users, scenario.User{Name: "dave", Acts: []scenario.Act{act}})
	}
	for _, tt := range []struct {
		name, scenario string
		broken         broken
		search         explore.Config
	}{
		{
			"unconditional-updates", "two-claims-one-volume", broken{rules("I1", "I2"), between(careless("pvcontroller")), twice},
			explore.Config{Strategy: explore.Holds, Depth: 2},
		},
		{
			"no-live-list", "claim-deleted-while-pod-starts", broken{rules("I28"), between(trusting("pvcprotection"))},
			explore.Config{Strategy: explore.Holds},
		},
		{"waits-for-ever", "two-claims-one-volume", broken{rules("L1"), between(absentMinded("pvcontroller"))}, explore.Config{Strategy: explore.Holds}},
		{"panic", "two-claims-one-volume", broken{rules("I1"), between(fragile("pvcontroller"))}, explore.Config{Strategy: explore.Holds}},
		{"restart", "claim-recreated", broken{rules("I1", "I2"), between(careless("pvcontroller"))}, explore.Config{Strategy: explore.Restarts}},
		{
			"livelock", "two-claims-two-volumes",
			broken{rules("I1"), extra(stubborn("keeper", corev1.PersistentVolumeReclaimRetain), stubborn("cleaner", corev1.PersistentVolumeReclaimDelete))},
			explore.Config{Strategy: explore.Holds},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := scenario.Find(tt.scenario)
			if err != nil {
				t.Fatal(err)
			}
			for _, change := range tt.broken {
				change(s)
			}
			report, err := explore.Search(t.Context(), s, tt.search)
			if err != nil || report.Failure == nil {
				t.Fatalf("%+v, %v", report, err)
			}
			f := report.Failure
			golden(t, tt.name, f.Scenario.String()+"\n"+scenario.Story(f.Scenario, f.Result))
		})
	}
}

var lineNumber = regexp.MustCompile(`\.go:\d+`)

func golden(t *testing.T, name, got string) {
	t.Helper()
	got = lineNumber.ReplaceAllString(got, ".go:N")
	path := filepath.Join("testdata", name+".story")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the story (-want +got):\n%s", diff)
	}
}
