package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim"
)

// A Scenario is a world and the acts of its users.
type Scenario struct {
	Name           string   // name of the file; not part of the text
	About          []string // the comment at the beginning, by line
	Nodes          int      // 0: 2
	VolumesPerNode int      // attachable volumes per node; 0: unlimited
	SELinux        bool     // of the nodes; see cluster.Config
	NodeLeases     bool     // kubelets renew Leases, so that a dead node is noticed; see cluster.Config
	// StorageCapacity is how often the provisioner asks the driver for its free capacity, to publish it;
	// 0: it does not. See cluster.Config.
	StorageCapacity time.Duration
	Components      []string       // nil: all, empty: none; see cluster.Config
	Faults          sim.FaultSpecs // injected by a randomized search
	Rules           []string       // IDs of the rules to check; nil: all
	OutcomesDiffer  bool           // schedules may legitimately end in different states
	Users           []User         // act concurrently
	Drawn           []string       // parameters of components and scripts, as "LABEL JSON"; see simtest.Draw
	Schedule        sim.Schedule   // nil: the default order
	Violates        string         // the ID of the rule that the schedule violates; "": none
	LocalDisks      []string       // classes and directories of local disks, as "CLASS=DIR"; see cluster.Config
	LocalStorage    bool           // volume groups of the disks that storage classes name; see cluster.Config
	Definitions     []string       // files, and directories of files, with definitions of custom resources; see cluster.Config

	// Dir is the directory from which relative paths of the text begin. "" is the working directory.
	// Set it before the first run.
	Dir string

	// path of the file, for the replay command; "": none
	File         string               // where it is kept, so that it can be run again; "": nowhere
	Extra        []cluster.Component  // components besides the control plane
	Interceptors cluster.Interceptors // hooks around the calls of components
	OwnRules     []invariant.Rule     // of the test, checked besides Rules; each with Begin
	// Plugins returns volume plugins of the test's own; see cluster.Config. It is called in each run.
	Plugins func(host cluster.PluginHost) ([]plugins.Plugin, error)
	// Extenders are extenders of the scheduler of the test's own; see cluster.Config.
	Extenders map[string]http.Handler
}

// noComponents stands for an empty list of components.
const noComponents = "none"

// A User performs its acts one after the other, and then its script.
type User struct {
	Name string
	Acts []Act
	// Script is a user in Go. It begins after the set-up, and is suspended at each request of
	// c.Client and of clients from c.RESTConfig. It runs again in each run: what it remembers it
	// keeps in local variables. It starts no goroutines. An error fails the run. nil: nothing. It is
	// not part of the text.
	Script func(ctx context.Context, c *cluster.Cluster) error
}

// OnlyInGo reports whether the scenario has parts that its text lacks: components, interceptors,
// plugins, extenders, rules or scripts.
func (s *Scenario) OnlyInGo() bool {
	return len(s.Extra) > 0 || len(s.Drawn) > 0 || s.Interceptors.Client != nil || s.Interceptors.Driver != nil || len(s.OwnRules) > 0 || s.Plugins != nil || len(s.Extenders) > 0 ||
		slices.ContainsFunc(s.Users, func(u User) bool { return u.Script != nil })
}

// WithGo returns a copy of the scenario with the parts of another one that its text lacks. Scripts
// belong to the users of the same name.
func (s *Scenario) WithGo(from *Scenario) *Scenario {
	other := *s
	other.Extra, other.Interceptors, other.OwnRules = from.Extra, from.Interceptors, from.OwnRules
	other.Plugins, other.Extenders = from.Plugins, from.Extenders
	other.Users = slices.Clone(s.Users)
	for i := range other.Users {
		u := &other.Users[i]
		if j := slices.IndexFunc(from.Users, func(f User) bool { return f.Name == u.Name }); j >= 0 {
			u.Script = from.Users[j].Script
		}
	}
	return &other
}

// In returns a copy of the scenario whose text is for a file in another directory: its relative
// paths begin there.
func (s *Scenario) In(dir string) *Scenario {
	other := *s
	other.Dir = dir
	moved := func(path string) string {
		from, err := filepath.Abs(within(s.Dir, path))
		to, errTo := filepath.Abs(dir)
		if filepath.IsAbs(path) || err != nil || errTo != nil {
			return path
		}
		if short, err := filepath.Rel(to, from); err == nil {
			return filepath.ToSlash(short)
		}
		return from
	}
	other.Definitions, other.Users = nil, slices.Clone(s.Users)
	for _, path := range s.Definitions {
		other.Definitions = append(other.Definitions, moved(path))
	}
	for i := range other.Users {
		u := &other.Users[i]
		u.Acts = slices.Clone(u.Acts)
		for j := range u.Acts {
			if a := &u.Acts[j]; a.file != nil {
				a.file = a.file.at(moved(a.file.path))
			}
		}
	}
	return &other
}

// load reads the files that acts apply.
func (s *Scenario) load() error {
	for _, u := range s.Users {
		for _, a := range u.Acts {
			if a.file == nil {
				continue
			}
			if _, err := a.file.load(s.Dir); err != nil {
				return fmt.Errorf("scenario %s: user %s: %s: %w", s.Name, u.Name, a, err)
			}
		}
	}
	return nil
}

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
		if p.s.SELinux = value == "on"; !p.s.SELinux {
			err = fmt.Errorf("selinux: %q: want on", value)
		}
	case "node-leases":
		if p.s.NodeLeases = value == "on"; !p.s.NodeLeases {
			err = fmt.Errorf("node-leases: %q: want on", value)
		}
	case "storage-capacity":
		if p.s.StorageCapacity, err = time.ParseDuration(value); err != nil || p.s.StorageCapacity <= 0 {
			err = fmt.Errorf("storage-capacity: %q: want a duration such as 1m", value)
		}
	case "local-storage":
		if p.s.LocalStorage = value == "on"; !p.s.LocalStorage {
			err = fmt.Errorf("local-storage: %q: want on", value)
		}
	case "components":
		p.s.Components = []string{}
		if value != noComponents {
			p.s.Components = list(value)
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
	case "violates":
		p.s.Violates = value
	default:
		err = fmt.Errorf("header %q: want nodes, volumes-per-node, selinux, node-leases, storage-capacity, components, local-disks, local-storage, definitions, faults, rules, ends, drawn or violates", key)
	}
	return err
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

// String returns the scenario as text.
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
	if s.NodeLeases {
		header("node-leases", "on")
	}
	if s.StorageCapacity > 0 {
		header("storage-capacity", s.StorageCapacity.String())
	}
	if s.Components != nil && len(s.Components) == 0 {
		header("components", noComponents)
	}
	header("components", strings.Join(s.Components, ", "))
	header("local-disks", strings.Join(s.LocalDisks, ", "))
	if s.LocalStorage {
		header("local-storage", "on")
	}
	header("definitions", strings.Join(s.Definitions, ", "))
	header("faults", s.Faults.String())
	header("rules", strings.Join(s.Rules, ", "))
	if s.OutcomesDiffer {
		header("ends", "differ")
	}
	for _, drawn := range s.Drawn {
		header("drawn", drawn)
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

// WithSchedule returns a copy of the scenario with another schedule and the ID of the rule that the
// schedule violates.
func (s *Scenario) WithSchedule(schedule sim.Schedule, violates string) *Scenario {
	other := *s
	other.Schedule, other.Violates = slices.Clone(schedule), violates
	return &other
}

// rules returns the rules to check.
func (s *Scenario) rules() ([]invariant.Rule, error) {
	rules := invariant.Rules()
	for _, own := range s.OwnRules {
		switch {
		case own.Begin == nil || own.ID == "" || strings.ContainsAny(own.ID, " \t\n,:"):
			return nil, fmt.Errorf("rule %q: want an ID without blanks, commas and colons, and Begin", own.ID)
		case slices.ContainsFunc(rules, func(r invariant.Rule) bool { return r.ID == own.ID }):
			return nil, fmt.Errorf("rule %q: there already is a rule with this ID", own.ID)
		}
		rules = append(rules, own)
	}
	if s.Rules == nil {
		return rules, nil
	}
	selected, err := invariant.Select(s.Rules...)
	return append(selected, s.OwnRules...), err
}

// isNoClass reports whether a word is not a class with an absolute directory.
func isNoClass(word string) bool {
	class, dir, _ := strings.Cut(word, "=")
	return class == "" || !strings.HasPrefix(dir, "/")
}

// World returns the configuration of the scenario's world. Its storage is the simulated array,
// whose nodes are registered beforehand.
func (s *Scenario) World(stepped sim.SteppedConfig) cluster.Config {
	cfg := cluster.Config{
		Nodes: cmp.Or(s.Nodes, 2), Components: s.Components, Extra: s.Extra, Interceptors: s.Interceptors, Plugins: s.Plugins,
		Devices: cluster.Array, Stepped: &stepped,
		PreRegistered: true, HostPathProvisioning: true, VolumesPerNode: s.VolumesPerNode, SELinux: s.SELinux, NodeLeases: s.NodeLeases,
		StorageCapacity: s.StorageCapacity,
		LocalStorage:    s.LocalStorage,
		Extenders:       s.Extenders,
	}
	for _, each := range s.LocalDisks {
		class, dir, _ := strings.Cut(each, "=")
		cfg.LocalDisks += fmt.Sprintf("%q: {hostDir: %q}\n", class, dir)
	}
	for _, path := range s.Definitions {
		cfg.CRDDirectoryPaths = append(cfg.CRDDirectoryPaths, within(s.Dir, path))
	}
	cfg.API.SkipBootstrap = s.Components != nil && !slices.Contains(s.Components, "serviceaccount")
	return cfg
}
