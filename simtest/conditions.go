package simtest

import (
	"slices"
	"testing"

	"github.com/volsim/volsim/sim/trace"
)

// reportNever logs the conditions of trace.Sometimes that never held. Those that the scenario names
// fail the test.
func reportNever(t testing.TB, never []trace.Condition, named []string) {
	t.Helper()
	for _, c := range never {
		report := t.Logf
		if slices.Contains(named, c.Name) {
			report = t.Errorf
		}
		if c.Calls == 0 {
			report("never reached: %s", c.Name)
		} else {
			report("never held, in %d calls: %s", c.Calls, c.Name)
		}
	}
}
