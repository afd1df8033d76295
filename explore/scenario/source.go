package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/volsim/volsim/internal/usercode"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/sim/trace"
)

// source returns where the code or the text of the user made the call that failed: the one that
// violated a rule, or the last one of a user that returned an error. It returns "" if the call is not
// known, or belongs to neither.
func (w *world) source(s *Scenario) string {
	records := w.result.Trace.Records()
	var violation *invariant.Violation
	failed := func(r trace.Record) bool { return r.Task == w.failedUser }
	switch {
	case errors.As(w.result.Failure, &violation) && !violation.AtRest:
		failed = func(r trace.Record) bool { return r.Step == violation.Step }
	case RuleID(w.result.Failure) != "user":
		return ""
	}
	for _, r := range slices.Backward(records) {
		if r.Kind != trace.KindAPI && r.Kind != trace.KindDriver || !failed(r) {
			continue
		}
		if place := usercode.Place(w.result.Trace.Callers(r.Step)); place != "" {
			return place
		}
		return w.actAt(s, r)
	}
	return ""
}

// An actStart is the beginning of an act of a user.
type actStart struct {
	user string
	act  int // index
	step int // steps of the trace before it
}

// actAt returns the act of a user that made a call, and its line in the text of the scenario.
func (w *world) actAt(s *Scenario, r trace.Record) string {
	for _, a := range slices.Backward(w.result.acts) {
		if a.user != trace.Process(r.Task) || a.step >= r.Step {
			continue
		}
		line := 1
		for text := range strings.Lines(s.String()) {
			line++
			if strings.TrimSpace(text) == "user "+a.user {
				break
			}
		}
		u := s.Users[slices.IndexFunc(s.Users, func(u User) bool { return u.Name == a.user })]
		return fmt.Sprintf("line %d of the scenario: %s", line+a.act, u.Acts[a.act])
	}
	return ""
}
