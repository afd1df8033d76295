package scenario

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
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
	// DriverNames are the CSI drivers of the world: "array", and names of Drivers. Volumes and classes
	// that acts create are those of the first one. nil: "array".
	DriverNames    []string
	Components     []string       // nil: all, empty: none; see cluster.Config
	Faults         sim.FaultSpecs // injected by a randomized search
	Rules          []string       // IDs of the rules to check; nil: all
	OutcomesDiffer bool           // schedules may legitimately end in different states
	Users          []User         // act concurrently
	Drawn          []string       // parameters of components and scripts, as "LABEL JSON"; see simtest.Draw
	Sometimes      []string       // conditions of trace.Sometimes that must hold in some schedule of a search
	Schedule       sim.Schedule   // nil: the default order
	Violates       string         // the ID of the rule that the schedule violates; "": none
	LocalDisks     []string       // classes and directories of local disks, as "CLASS=DIR"; see cluster.Config
	LocalStorage   bool           // volume groups of the disks that storage classes name; see cluster.Config
	Snapshots      bool           // snapshots and groups of snapshots; see cluster.Config
	// Containers is what runs the containers of pods; "": nothing does. See cluster.Config.
	Containers  cluster.Containers
	Definitions []string // files, and directories of files, with definitions of custom resources; see cluster.Config

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
	// Drivers returns CSI drivers of the test's own, by name. Each run calls the functions of DriverNames.
	Drivers map[string]func() cluster.Driver
	// Extenders are extenders of the scheduler of the test's own; see cluster.Config.
	Extenders map[string]http.Handler
}

// builtInDriver stands for the driver of the simulated array in the header of drivers.
const builtInDriver = "array"

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
	i := s.Interceptors
	return len(s.Extra) > 0 || len(s.Drawn) > 0 || i.Client != nil || i.Driver != nil || i.FS != nil || i.Plugin != nil ||
		len(s.OwnRules) > 0 || s.Plugins != nil || len(s.Extenders) > 0 ||
		slices.ContainsFunc(s.DriverNames, func(name string) bool { return name != builtInDriver }) ||
		slices.ContainsFunc(s.Users, func(u User) bool { return u.Script != nil })
}

// WithGo returns a copy of the scenario with the parts of another one that its text lacks. Scripts
// belong to the users of the same name.
func (s *Scenario) WithGo(from *Scenario) *Scenario {
	other := *s
	other.Extra, other.Interceptors, other.OwnRules = from.Extra, from.Interceptors, from.OwnRules
	other.Plugins, other.Extenders, other.Drivers = from.Plugins, from.Extenders, from.Drivers
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
	header("drivers", strings.Join(s.DriverNames, ", "))
	if s.Components != nil && len(s.Components) == 0 {
		header("components", noComponents)
	}
	header("components", strings.Join(s.Components, ", "))
	header("local-disks", strings.Join(s.LocalDisks, ", "))
	if s.LocalStorage {
		header("local-storage", "on")
	}
	if s.Snapshots {
		header("snapshots", "on")
	}
	header("containers", string(s.Containers))
	header("definitions", strings.Join(s.Definitions, ", "))
	header("faults", s.Faults.String())
	header("rules", strings.Join(s.Rules, ", "))
	if s.OutcomesDiffer {
		header("ends", "differ")
	}
	for _, drawn := range s.Drawn {
		header("drawn", drawn)
	}
	for _, name := range s.Sometimes {
		header("sometimes", name)
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

// allRules has the rules of package invariant.
var allRules = sync.OnceValue(invariant.Rules)

// rules returns the rules to check. The caller must not change them.
func (s *Scenario) rules() ([]invariant.Rule, error) {
	rules := slices.Clip(allRules())
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

// checkDrivers returns an error for a driver that the test does not have.
func (s *Scenario) checkDrivers() error {
	for _, name := range s.DriverNames {
		if name != builtInDriver && s.Drivers[name] == nil {
			return fmt.Errorf("scenario %s: drivers: %q: the test has no such driver (have %s)", s.Name, name,
				strings.Join(append([]string{builtInDriver}, slices.Sorted(maps.Keys(s.Drivers))...), ", "))
		}
	}
	return nil
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
		Snapshots:       s.Snapshots,
		Containers:      s.Containers,
		Extenders:       s.Extenders,
	}
	for _, each := range s.LocalDisks {
		class, dir, _ := strings.Cut(each, "=")
		cfg.LocalDisks += fmt.Sprintf("%q: {hostDir: %q}\n", class, dir)
	}
	for _, path := range s.Definitions {
		cfg.CRDDirectoryPaths = append(cfg.CRDDirectoryPaths, within(s.Dir, path))
	}
	cfg.WithoutDriver = s.DriverNames != nil && !slices.Contains(s.DriverNames, builtInDriver)
	for _, name := range s.DriverNames {
		if create := s.Drivers[name]; create != nil {
			cfg.Drivers = append(cfg.Drivers, create())
		}
	}
	cfg.API.SkipBootstrap = s.Components != nil && !slices.Contains(s.Components, "serviceaccount")
	return cfg
}
