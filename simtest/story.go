package simtest

import (
	"fmt"
	"strings"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
)

// failureText is what a failing test says: what went wrong, all that happened, and how to see it again. file is where it is kept,
// "" if nowhere.
func failureText(f *explore.Failure, file string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%s\n%s", f, f.Scenario, scenario.Story(f.Scenario, f.Result))
	fmt.Fprintf(&b, "schedule: %q\n", f.Scenario.Schedule)
	if f.Scenario.File == "" { // the story does not say
		fmt.Fprintf(&b, "replay: %s\n", replayCommand(f.Scenario, file))
	}
	return b.String()
}

// replayCommand says how to see a failure again. The command does not know the parts of a test.
func replayCommand(s *scenario.Scenario, file string) string {
	switch {
	case len(s.Extra) > 0 || s.Interceptors.Client != nil || s.Interceptors.Driver != nil:
		return "simtest.Replay, with this schedule and what the test brings to the world"
	case file == "":
		return "write the scenario into a FILE, and go run github.com/volsim/volsim/cmd/volsim replay FILE"
	default:
		return "go run github.com/volsim/volsim/cmd/volsim replay " + file
	}
}
