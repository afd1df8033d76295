package plugintest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim"
)

// A World is a plugin in the process that it serves, and everything outside that process. What is
// left out is not checked.
type World struct {
	Host    sim.Host // started; a *sim.Stepped, or a *sim.Live for a subset of the checks
	Process *sim.Process
	Plugin  plugins.Plugin
	// Restart crashes Process, which may be in the middle of its work. It returns the process and
	// the plugin that replace it over the same outside. Only for a stepped world.
	Restart func() (*sim.Process, plugins.Plugin, error)
	// Resources lists everything that the plugin may create outside its process and remove again:
	// attachments, mounts, files, volumes. The order must be the same each time.
	Resources func() ([]string, error)
	Close     func() // closes the world; nil: closes the host

	Volumes []*plugins.Spec  // at least two different existing volumes with different Names
	Nodes   []types.NodeName // to attach to; the plugin mounts on the first
	Pods    []*corev1.Pod    // to mount for, two of that node
	// Provision are options with which a volume can be provisioned.
	Provision *plugins.ProvisionOptions
	Recycle   *RecyclableVolume
}

// A RecyclableVolume is a volume that can be recycled.
type RecyclableVolume struct {
	Volume   string // the PersistentVolume's name
	Spec     *plugins.Spec
	Fill     func() error             // writes something into the volume
	Contents func() ([]string, error) // lists its contents; an error if the volume does not exist
}

// Check checks a plugin and returns an error with one line for each violation of the contract; nil
// if there is none. begin creates a world in its initial state, always the same. It is called up to
// several hundred times. ctx bounds the waits in a live world.
func Check(ctx context.Context, begin func() (*World, error)) error {
	c := &checker{ctx: ctx, begin: begin, reported: map[string]bool{}}
	checks := []func(){c.checkNames, c.checkSupport, c.checkOddVolumes}
	for _, p := range pairs {
		checks = append(checks, func() { c.checkPair(p) })
	}
	checks = append(checks, c.checkAttachState, c.checkNodes, c.checkMounts, c.checkVolumesInUse, c.checkStats,
		c.checkReconstruction, c.checkProvisioning, c.checkRecycling)
	for _, check := range checks {
		if check(); c.err != nil {
			return c.err
		}
	}
	return errors.Join(c.problems...)
}

// A checker collects the violations.
type checker struct {
	ctx      context.Context //nolint:containedctx // of one Check
	begin    func() (*World, error)
	problems []error
	reported map[string]bool // violated rules
	err      error           // a world cannot be created
}

// problem records a violation: the rule, and the details of its first occurrence.
func (c *checker) problem(rule, format string, args ...any) {
	if c.reported[rule] {
		return
	}
	c.reported[rule] = true
	text := rule
	if format != "" {
		text += ": " + fmt.Sprintf(format, args...)
	}
	c.problems = append(c.problems, errors.New(text))
}

// inWorld runs a check in a new world.
func (c *checker) inWorld(check func(w *world)) {
	if c.err != nil {
		return
	}
	created, err := c.begin()
	if err == nil && (created.Resources == nil || len(created.Volumes) < 2) {
		err = errors.New("missing World.Resources, or fewer than two World.Volumes")
	}
	if err != nil {
		c.err = fmt.Errorf("create a world for the plugin: %w", err)
		return
	}
	w := &world{World: created, checker: c}
	w.stepped, _ = created.Host.(*sim.Stepped)
	defer func() {
		if created.Close != nil {
			created.Close()
		} else {
			created.Host.Close()
		}
	}()
	before := inputs(created)
	w.findCapabilities()
	w.rest()
	check(w)
	w.compareInputs(before)
}

// findCapabilities determines what the plugin offers.
func (w *world) findCapabilities() {
	var m plugins.Manager
	if err := m.Register(w.Plugin); err != nil {
		w.problem("Name: not a qualified name", "%v", err)
	}
	w.caps, _ = m.FindByName(w.Plugin.Name())
	if w.caps.Plugin == nil { // not found by its name
		w.caps = plugins.Capabilities{Plugin: w.Plugin}
	}
}

// compare describes the differences between two lists, ignoring the order; "" if there are none.
func compare(want, got []string) string {
	counts := map[string]int{}
	for _, line := range want {
		counts[line]++
	}
	var extra, missing []string
	for _, line := range got {
		if counts[line]--; counts[line] < 0 {
			extra = append(extra, "extra "+line)
		}
	}
	for _, line := range want {
		if counts[line] > 0 {
			counts[line]--
			missing = append(missing, "missing "+line)
		}
	}
	return strings.Join(append(missing, extra...), "; ")
}
