package known

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/invariant"
)

// A Bug is a bug that was reported, and a world in which the search finds it.
type Bug struct {
	Name       string   // "cloudnativepg-10427": the project and the number of a report
	Project    string   // as it writes its name
	Repository string   // on GitHub
	Issues     []string // "issue 9786", "pull 10427"
	Year       int      // of the first report
	FoundBy    string
	Title      string // in a few words
	What       string // the race, in one or two sentences
	Rule       string // ID of the rule that is violated

	Text string // the scenario
	// Components returns the components besides the control plane, with the bug or without it. nil: none.
	Components func(broken bool) []cluster.Component
	// Interceptors returns the bug, if it is in a component of this module. nil: none.
	Interceptors func() cluster.Interceptors
	OwnRules     []invariant.Rule

	Config explore.Config // the search
	Within int            // maximum number of schedules until it is found
}

// A Form is one of the two forms of the code of a bug.
type Form bool

// The forms.
const (
	Broken Form = true  // the code with the bug
	Mended Form = false // the code without it
)

// MendedSchedules is the minimum of schedules that the search of a mended form is allowed.
const MendedSchedules = 100

// Bugs returns all bugs, sorted by project and number.
func Bugs() []Bug {
	all := slices.Concat(cloudNativePG, kubernetes, rabbitMQ, sidecars, sieve)
	slices.SortStableFunc(all, func(a, b Bug) int {
		return cmp.Or(cmp.Compare(strings.ToLower(a.Project), strings.ToLower(b.Project)), cmp.Compare(a.number(), b.number()))
	})
	return all
}

// number returns the number in the name.
func (b Bug) number() int {
	n, _ := strconv.Atoi(b.Name[strings.LastIndex(b.Name, "-")+1:])
	return n
}

// Find returns the bug of that name.
func Find(name string) (Bug, error) {
	for _, b := range Bugs() {
		if b.Name == name {
			return b, nil
		}
	}
	return Bug{}, fmt.Errorf("unknown bug %q (see volsim known)", name)
}

// Reports returns the addresses of the reports.
func (b Bug) Reports() []string {
	var addresses []string
	for _, issue := range b.Issues {
		kind, number, _ := strings.Cut(issue, " ")
		if kind == "issue" {
			kind = "issues"
		}
		addresses = append(addresses, fmt.Sprintf("https://github.com/%s/%s/%s", b.Repository, kind, number))
	}
	return addresses
}

// drawnLabel is the label of the parameter that names the bug in the text of its scenario.
const drawnLabel = "volsim.known"

// Scenario returns the scenario with one form of the code.
func (b Bug) Scenario(form Form) (*scenario.Scenario, error) {
	s, err := scenario.Parse(b.Name, b.Text)
	if err != nil {
		return nil, err
	}
	name, _ := json.Marshal(b.Name) // a string can always be marshalled
	s.Drawn = append(s.Drawn, drawnLabel+" "+string(name))
	s.OwnRules = b.OwnRules
	if b.Components != nil {
		s.Extra = b.Components(bool(form))
	}
	if form == Broken && b.Interceptors != nil {
		s.Interceptors = b.Interceptors()
	}
	return s, nil
}

// Restore adds the broken code to a scenario that was parsed from the text of a saved failure. It
// returns other scenarios unchanged.
func Restore(s *scenario.Scenario) (*scenario.Scenario, error) {
	for _, drawn := range s.Drawn {
		label, value, _ := strings.Cut(drawn, " ")
		var name string
		if label != drawnLabel || json.Unmarshal([]byte(value), &name) != nil {
			continue
		}
		b, err := Find(name)
		if err != nil {
			return nil, err
		}
		code, err := b.Scenario(Broken)
		if err != nil {
			return nil, err
		}
		return s.WithGo(code), nil
	}
	return s, nil
}

// Search searches one form of the code. The strategy is the bug's. The number of schedules, unless the
// configuration has one, is Within for the broken form. For the mended one it is MendedSchedules, or
// the number until the bug was found, if that is more. The configuration may also have a Progress
// function.
func (b Bug) Search(ctx context.Context, form Form, with explore.Config) (explore.Report, error) {
	s, err := b.Scenario(form)
	if err != nil {
		return explore.Report{}, err
	}
	cfg := b.Config
	cfg.Progress, cfg.Count = with.Progress, with.Count
	switch {
	case cfg.Count > 0:
	case form == Broken:
		cfg.Count = b.Within
	default:
		cfg.Count = max(b.Result().Schedules, MendedSchedules)
	}
	return explore.Search(ctx, s, cfg)
}

// Missed returns an error if the report of a search of the broken form does not have the bug.
func (b Bug) Missed(r explore.Report) error {
	switch {
	case r.Failure == nil:
		return fmt.Errorf("%s: not found in %d schedules", b.Name, r.Schedules)
	case r.Failure.Scenario.Violates != b.Rule:
		return fmt.Errorf("%s: found by rule %s, want %s: %w", b.Name, r.Failure.Scenario.Violates, b.Rule, r.Failure)
	}
	return nil
}

// forbids returns what the rule of the bug forbids.
func (b Bug) forbids() string {
	for _, r := range append(invariant.Rules(), b.OwnRules...) {
		if r.ID == b.Rule {
			return r.Forbids
		}
	}
	return ""
}
