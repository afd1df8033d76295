package known

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/volsim/volsim/explore"
)

// found is written by the tests: a line for each bug.
//
//go:embed found.txt
var found string

// A Result is how a bug was found.
type Result struct {
	Schedules  int // number of schedules until it was found
	Deviations int // of the shrunk schedule from the default order
}

// ResultOf returns how a search has found its bug.
func ResultOf(r explore.Report) Result {
	return Result{r.Failure.Schedules, len(r.Failure.Scenario.Schedule)}
}

// Result returns how the bug was found when found.txt was written, or zeros if the file lacks it.
func (b Bug) Result() Result {
	var r Result
	for line := range strings.Lines(found) {
		var name string
		if _, err := fmt.Sscan(line, &name, &r.Schedules, &r.Deviations); err == nil && name == b.Name {
			return r
		}
	}
	return Result{}
}
