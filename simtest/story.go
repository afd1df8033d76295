package simtest

import (
	"fmt"
	"strings"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
)

// failureText returns the message of a failing test: the violation, the story, and how to replay
// it. file is the path of the saved failure, "" if there is none.
func failureText(f *explore.Failure, file string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%s\n%s", f, f.Scenario, scenario.Story(f.Scenario, f.Result))
	fmt.Fprintf(&b, "schedule: %q\n", f.Scenario.Schedule)
	if f.Scenario.File == "" { // the story has no replay command
		fmt.Fprintf(&b, "replay: %s\n", replayCommand(f.Scenario, file))
	}
	return b.String()
}

// replayCommand returns how to replay a failure. The command line does not know the components of a
// test.
func replayCommand(s *scenario.Scenario, file string) string {
	switch {
	case s.OnlyInGo():
		return "call simtest.Replay with this schedule and the components, rules and scripts of the test"
	case file == "":
		return "write the scenario to FILE and run: go run github.com/volsim/volsim/cmd/volsim replay FILE"
	default:
		return "go run github.com/volsim/volsim/cmd/volsim replay " + file
	}
}
