package simtest

import (
	"fmt"
	"strings"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/scenario"
)

// tale is what a failing test says: what went wrong, all that happened, and how to see it again. file is where it is kept,
// "" if nowhere.
func tale(f *explore.Failure, file string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%s\n", f, story(f.Scenario, f.Result))
	fmt.Fprintf(&b, "schedule: %q\n", f.Scenario.Schedule)
	if file == "" {
		file = "FILE, with the scenario in FILE"
	}
	fmt.Fprintf(&b, "replay: go run github.com/volsim/volsim/cmd/volsim replay %s\n", file)
	return b.String()
}

// story tells a run, from the end of the set-up on.
func story(s *scenario.Scenario, r *scenario.Result) string {
	steps := strings.SplitAfter(r.Trace.Text(), "\n")
	return s.String() + "\n" + strings.Join(steps[min(r.Began, len(steps)):], "")
}
