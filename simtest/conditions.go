package simtest

import (
	"maps"
	"slices"
	"testing"

	"github.com/volsim/volsim/sim/trace"
)

// conditions are those of trace.Sometimes in several runs, by name.
type conditions map[string]trace.Condition

// add adds the conditions of some runs.
func (c conditions) add(more []trace.Condition) {
	for _, one := range more {
		sum := c[one.Name]
		c[one.Name] = trace.Condition{Name: one.Name, Calls: sum.Calls + one.Calls, Held: sum.Held + one.Held}
	}
}

// never returns the conditions that never held, by name.
func (c conditions) never() []trace.Condition {
	var never []trace.Condition
	for _, name := range slices.Sorted(maps.Keys(c)) {
		if c[name].Held == 0 {
			never = append(never, c[name])
		}
	}
	return never
}

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
