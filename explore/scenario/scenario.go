package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/sim"
)

// Scenario is a world and what its users do in it.
type Scenario struct {
	Name           string         // not in the text: that of the file
	About          []string       // the comment it begins with, a line each
	Nodes          int            // 0: 2
	VolumesPerNode int            // that can be attached to a node; 0: any number
	SELinux        bool           // the nodes have it; see cluster.Config
	Components     []string       // nil: all, empty: none; see cluster.Config
	Faults         sim.FaultSpecs // what a random search lets go wrong
	Rules          []string       // the numbers of the rules at work; nil: all
	OutcomesDiffer bool           // schedules may rightly end differently
	Users          []User         // act side by side
	Schedule       sim.Schedule   // under which it is run; nil: the ordinary course
	Violates       string         // the number of the rule that the schedule breaks; "": none

	// Not in the text.
	File         string               // where it is kept, so that it can be run again; "": nowhere
	Extra        []cluster.Component  // beside the control plane
	Interceptors cluster.Interceptors // stands between the parts and what they call
}

// noComponents is what stands for a world that has none of the control plane's parts.
const noComponents = "none"

// User is somebody who acts, one act after the other.
type User struct {
	Name string
	Acts []Act
}

// Parse reads a scenario. The error names the line.
func Parse(name, text string) (*Scenario, error) {
	s := &Scenario{Name: name}
	p := parser{s: s}
	for i, line := range strings.Split(text, "\n") {
		if err := p.line(line); err != nil {
			return nil, fmt.Errorf("scenario %s, line %d: %w", name, i+1, err)
		}
	}
	if len(s.Users) == 0 {
		return nil, fmt.Errorf("scenario %s: it has no user", name)
	}
	return s, nil
}

// parser reads a scenario line by line.
type parser struct {
	s        *Scenario
	begun    bool // something but the first comment was read
	schedule bool // we are in the schedule
}

func (p *parser) line(line string) error {
	words := strings.TrimSpace(line)
	if comment, is := strings.CutPrefix(words, "#"); is {
		if !p.begun {
			p.s.About = append(p.s.About, strings.TrimSpace(comment))
		}
		return nil
	}
	if words == "" {
		return nil
	}
	p.begun = true
	switch indented := line[0] == ' ' || line[0] == '\t'; {
	case indented && p.schedule:
		d, err := sim.ParseDeviation(words)
		if err != nil {
			return err
		}
		p.s.Schedule = append(p.s.Schedule, d)
		return nil
	case indented && len(p.s.Users) > 0:
		act, err := ParseAct(words)
		if err != nil {
			return err
		}
		user := &p.s.Users[len(p.s.Users)-1]
		user.Acts = append(user.Acts, act)
		return nil
	case indented:
		return fmt.Errorf("%q stands under no user", words)
	}
	p.schedule = false
	if user, is := strings.CutPrefix(words, "user "); is {
		p.s.Users = append(p.s.Users, User{Name: strings.TrimSpace(user)})
		return nil
	}
	if words == "schedule" {
		p.schedule = true
		return nil
	}
	return p.header(words)
}

func (p *parser) header(words string) error {
	key, value, found := strings.Cut(words, ":")
	if !found {
		return fmt.Errorf("%q: want a header, a user or a schedule", words)
	}
	value = strings.TrimSpace(value)
	var err error
	switch key {
	case "nodes":
		p.s.Nodes, err = number(key, value)
	case "volumes-per-node":
		p.s.VolumesPerNode, err = number(key, value)
	case "selinux":
		if p.s.SELinux = value == "on"; !p.s.SELinux {
			err = fmt.Errorf("selinux: %q: want on", value)
		}
	case "parts":
		p.s.Components = []string{}
		if value != noComponents {
			p.s.Components = list(value)
		}
	case "faults":
		p.s.Faults, err = sim.ParseFaultSpecs(value)
	case "rules":
		p.s.Rules = list(value)
		_, err = invariant.Select(p.s.Rules...)
	case "ends":
		p.s.OutcomesDiffer = value == "differ"
		if !p.s.OutcomesDiffer {
			err = fmt.Errorf("ends: %q: want differ", value)
		}
	case "violates":
		p.s.Violates = value
	default:
		err = fmt.Errorf("header %q: want nodes, volumes-per-node, selinux, parts, faults, rules, ends or violates", key)
	}
	return err
}

// number reads the value of a header that is a number from 1 on.
func number(key, value string) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%s: %q: want a number, at least 1", key, value)
	}
	return n, nil
}

func list(value string) []string {
	var words []string
	for _, w := range strings.Split(value, ",") {
		if w = strings.TrimSpace(w); w != "" {
			words = append(words, w)
		}
	}
	return words
}

// String gives the scenario as text.
func (s *Scenario) String() string {
	var b strings.Builder
	for _, line := range s.About {
		fmt.Fprintln(&b, strings.TrimSpace("# "+line))
	}
	header := func(key, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s: %s\n", key, value)
		}
	}
	if s.Nodes != 0 {
		header("nodes", strconv.Itoa(s.Nodes))
	}
	if s.VolumesPerNode != 0 {
		header("volumes-per-node", strconv.Itoa(s.VolumesPerNode))
	}
	if s.SELinux {
		header("selinux", "on")
	}
	if s.Components != nil && len(s.Components) == 0 {
		header("parts", noComponents)
	}
	header("parts", strings.Join(s.Components, ", "))
	header("faults", s.Faults.String())
	header("rules", strings.Join(s.Rules, ", "))
	if s.OutcomesDiffer {
		header("ends", "differ")
	}
	for _, u := range s.Users {
		fmt.Fprintf(&b, "user %s\n", u.Name)
		for _, a := range u.Acts {
			fmt.Fprintf(&b, "  %s\n", a)
		}
	}
	if len(s.Schedule) > 0 {
		fmt.Fprintln(&b, "schedule")
		for _, d := range s.Schedule {
			fmt.Fprintf(&b, "  %s\n", d)
		}
	}
	header("violates", s.Violates)
	return b.String()
}

// WithSchedule returns the scenario with another schedule, and the rule that is broken under it.
func (s *Scenario) WithSchedule(schedule sim.Schedule, violates string) *Scenario {
	other := *s
	other.Schedule, other.Violates = slices.Clone(schedule), violates
	return &other
}

// rules are those at work.
func (s *Scenario) rules() ([]invariant.Rule, error) {
	if s.Rules == nil {
		return invariant.Rules(), nil
	}
	return invariant.Select(s.Rules...)
}

// World is what the scenario's world is made of: the simulated array, already enrolled.
func (s *Scenario) World(stepped sim.SteppedConfig) cluster.Config {
	cfg := cluster.Config{
		Nodes: cmp.Or(s.Nodes, 2), Components: s.Components, Extra: s.Extra, Interceptors: s.Interceptors, Devices: cluster.Array, Stepped: &stepped,
		PreRegistered: true, HostPathProvisioning: true, VolumesPerNode: s.VolumesPerNode, SELinux: s.SELinux,
	}
	cfg.API.SkipBootstrap = s.Components != nil && !slices.Contains(s.Components, "serviceaccount")
	return cfg
}
