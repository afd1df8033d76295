package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/sim"
)

// Parse parses a scenario. The error names the line.
func Parse(name, text string) (*Scenario, error) {
	s := &Scenario{Name: name}
	p := parser{s: s}
	for i, line := range strings.Split(text, "\n") {
		p.number = i + 1
		if err := p.line(strings.TrimSuffix(line, "\r")); err != nil {
			return nil, fmt.Errorf("scenario %s, line %d: %w", name, p.number, err)
		}
	}
	if err := p.endManifest(); err != nil {
		return nil, fmt.Errorf("scenario %s, line %d: %w", name, p.number, err)
	}
	if len(s.Users) == 0 && len(s.Drawn) == 0 {
		return nil, fmt.Errorf("scenario %s: no user", name)
	}
	return s, nil
}

// A parser parses a scenario line by line.
type parser struct {
	s        *Scenario
	number   int  // of the line, or of the apply whose manifest has ended
	begun    bool // a line after the first comment was read
	schedule bool // inside the schedule

	apply    int      // line of an apply whose manifest is in the lines below it; 0: none
	indented int      // indentation of that line
	manifest []string // those lines
}

// indentation returns the number of blanks at the beginning of a line.
func indentation(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }

// takes reports whether a line belongs to the manifest of an apply.
func (p *parser) takes(line string) bool {
	return p.apply > 0 && (strings.TrimSpace(line) == "" || indentation(line) > p.indented)
}

// endManifest adds the apply whose manifest has ended. An error is that of its line.
func (p *parser) endManifest() error {
	if p.apply == 0 {
		return nil
	}
	margin := 0
	for i, line := range slices.Backward(p.manifest) {
		if strings.TrimSpace(line) == "" {
			p.manifest[i] = ""
		} else {
			margin = indentation(line) // of the first line, at last
		}
	}
	for i, line := range p.manifest {
		p.manifest[i] = line[min(indentation(line), margin):]
	}
	act, err := ParseAct("apply\n" + strings.Join(p.manifest, "\n"))
	if err != nil {
		p.number = p.apply
		return fmt.Errorf("apply: %w", errors.Unwrap(err))
	}
	p.apply, p.manifest = 0, nil
	p.add(act)
	return nil
}

// add adds an act of the last user.
func (p *parser) add(act Act) {
	user := &p.s.Users[len(p.s.Users)-1]
	user.Acts = append(user.Acts, act)
}

func (p *parser) line(line string) error {
	if p.takes(line) {
		p.manifest = append(p.manifest, line)
		return nil
	}
	if err := p.endManifest(); err != nil {
		return err
	}
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
	case indented && len(p.s.Users) > 0 && words == "apply":
		p.apply, p.indented = p.number, indentation(line)
		return nil
	case indented && len(p.s.Users) > 0:
		act, err := ParseAct(words)
		if err == nil {
			err = p.s.checkSnapshots(act)
		}
		if err != nil {
			return err
		}
		p.add(act)
		return nil
	case indented:
		return fmt.Errorf("%q: indented line without a user", words)
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
		p.s.SELinux, err = isOn(key, value)
	case "node-leases":
		p.s.NodeLeases, err = isOn(key, value)
	case "storage-capacity":
		if p.s.StorageCapacity, err = time.ParseDuration(value); err != nil || p.s.StorageCapacity <= 0 {
			err = fmt.Errorf("storage-capacity: %q: want a duration such as 1m", value)
		}
	case "local-storage":
		p.s.LocalStorage, err = isOn(key, value)
	case "snapshots":
		p.s.Snapshots, err = isOn(key, value)
	case "containers":
		if p.s.Containers = cluster.Containers(value); p.s.Containers != cluster.ShellContainers {
			err = fmt.Errorf("containers: %q: want %s", value, cluster.ShellContainers)
		}
	case "drivers":
		if p.s.DriverNames = list(value); len(p.s.DriverNames) == 0 {
			err = errors.New("drivers: want array, or names of drivers of the test")
		}
	case "components":
		switch p.s.Components = list(value); {
		case value == noComponents:
			p.s.Components = []string{}
		case len(p.s.Components) == 0:
			err = errors.New("components: want names of components, or " + noComponents)
		}
	case "definitions":
		if p.s.Definitions = list(value); len(p.s.Definitions) == 0 {
			err = errors.New("definitions: want the paths of files or directories")
		}
	case "local-disks":
		if p.s.LocalDisks = list(value); len(p.s.LocalDisks) == 0 || slices.ContainsFunc(p.s.LocalDisks, isNoClass) {
			err = errors.New("local-disks: want classes with their directories, such as fast=/mnt/fast")
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
	case "drawn":
		p.s.Drawn = append(p.s.Drawn, value)
	case "sometimes":
		if value == "" {
			err = errors.New("sometimes: want the name of a condition")
		}
		p.s.Sometimes = append(p.s.Sometimes, value)
	case "violates":
		p.s.Violates = value
	default:
		err = fmt.Errorf("header %q: want nodes, volumes-per-node, selinux, node-leases, storage-capacity, drivers, components, local-disks, local-storage, snapshots, containers, definitions, faults, rules, ends, drawn, sometimes or violates", key)
	}
	return err
}

// isOn parses the value of a header that turns something on.
func isOn(key, value string) (bool, error) {
	if value != "on" {
		return false, fmt.Errorf("%s: %q: want on", key, value)
	}
	return true, nil
}

// number parses the value of a header that is a positive number.
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
