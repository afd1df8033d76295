package growth_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	growth "github.com/volsim/volsim/examples/statefulset-growth"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim/trace/picture"
)

var update = flag.Bool("update", false, "draw the pictures again")

// TestBugsAreFound by the searches of README.md, and none in the fixed operator.
func TestBugsAreFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		design      growth.Design
		rule, story string // story: what the counterexample consists of, besides what users do
	}{
		{growth.TemplateFirst, "grown", ">> operator crashes and restarts"},
		{growth.InMemory, "drained", ">> operator crashes and restarts"},
		{growth.ByName, "once", ">> operator#2/configmaps is held, before its delete of statefulset default/shop"},
		{growth.ClampedByTemplate, "floor", "operator creates statefulset default/shop"},
		{growth.Fixed, "", ""},
	} {
		t.Run(string(c.design), func(t *testing.T) {
			t.Parallel()
			failure, err := growth.Search(t.Context(), c.design)
			testcheck.NoError(t, err)
			if failure == nil {
				if c.rule != "" {
					t.Fatalf("no failure, want %s", c.rule)
				}
				return
			}
			story := scenario.Story(failure.Scenario, failure.Result)
			if failure.Scenario.Violates != c.rule || !strings.Contains(story, c.story) {
				t.Errorf("violates %s, want %s by %q\n%s", failure.Scenario.Violates, c.rule, c.story, story)
			}
			t.Logf("schedule %d", failure.Schedules)
			if *update {
				drawing := picture.SpaceTime(failure.Result.Trace.Records(), scenario.Picture(failure.Scenario, failure.Result))
				testcheck.NoError(t, os.WriteFile(string(c.design)+".svg", drawing.SVG(), 0o644))
			}
		})
	}
}
