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

// World is a plugin in the process that it serves, and what is outside of that. What is left out is not checked.
type World struct {
	Host    sim.Host // started; a *sim.Stepped, or for a part of the checks a *sim.Live
	Process *sim.Process
	Plugin  plugins.Plugin
	// Restart makes the process begin anew over what is outside of it, when the one before has ended at some moment in the
	// middle of its work: it crashes Component, and returns what takes its place. For a stepped world.
	Restart func() (*sim.Process, plugins.Plugin, error)
	// Resources lists whatever the plugin may make outside of its process and take away again: attachments, mounts, files, volumes.
	// The order must be the same each time.
	Resources func() ([]string, error)
	Close     func() // ends the world; nil: the host is closed

	Volumes []*plugins.Spec  // volumes that there are, each another, two at least; their Names differ
	Nodes   []types.NodeName // to attach to; the first is the one on which the plugin mounts
	Pods    []*corev1.Pod    // to mount for, two of that node
	// Provision are options by which a volume can be made.
	Provision *plugins.ProvisionOptions
	Recycle   *RecyclableVolume
}

// RecyclableVolume is a volume that can be recycled.
type RecyclableVolume struct {
	Volume   string // the PersistentVolume's name
	Spec     *plugins.Spec
	Fill     func() error             // puts something into the volume
	Contents func() ([]string, error) // what is in it; an error when there is no such volume
}

// Check runs a plugin and returns an error that names each promise it broke, one a line; nil if it broke none. begin makes a
// world in which nothing was done yet, each time the same; it is called up to several hundred times. ctx bounds how long a live
// world is waited for.
func Check(ctx context.Context, begin func() (*World, error)) error {
	c := &checker{ctx: ctx, begin: begin, reported: map[string]bool{}}
	checks := []func(){c.checkNames, c.checkSupport, c.checkOddVolumes}
	for _, p := range pairs {
		checks = append(checks, func() { c.checkPair(p) })
	}
	checks = append(checks, c.checkAttachState, c.checkNodes, c.checkMounts, c.checkVolumesInUse, c.checkStats, c.checkReconstruction, c.checkProvisioning, c.checkRecycling)
	for _, check := range checks {
		if check(); c.err != nil {
			return c.err
		}
	}
	return errors.Join(c.problems...)
}

// checker keeps what was found out.
type checker struct {
	ctx      context.Context //nolint:containedctx // of one Check
	begin    func() (*World, error)
	problems []error
	reported map[string]bool // rules that were found broken
	err      error           // no world can be made
}

// problem notes that a promise was broken: rule, and the particulars of the first time that it was.
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

// inWorld makes a world for a check.
func (c *checker) inWorld(check func(w *world)) {
	if c.err != nil {
		return
	}
	made, err := c.begin()
	if err == nil && (made.Resources == nil || len(made.Volumes) < 2) {
		err = errors.New("it needs Left and two Volumes")
	}
	if err != nil {
		c.err = fmt.Errorf("make a world for the plugin: %w", err)
		return
	}
	w := &world{World: made, checker: c}
	w.stepped, _ = made.Host.(*sim.Stepped)
	defer func() {
		if made.Close != nil {
			made.Close()
		} else {
			made.Host.Close()
		}
	}()
	given := inputs(made)
	w.findCapabilities()
	w.rest()
	check(w)
	w.compareInputs(given)
}

// findCapabilities finds out what the plugin offers.
func (w *world) findCapabilities() {
	var m plugins.Manager
	if err := m.Register(w.Plugin); err != nil {
		w.problem("Name: it is not a qualified name", "%v", err)
	}
	w.caps, _ = m.FindByName(w.Plugin.Name())
	if w.caps.Plugin == nil { // not found by its name
		w.caps = plugins.Capabilities{Plugin: w.Plugin}
	}
}

// compare tells how what is left differs from what should be: lines only there, lines only here.
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
