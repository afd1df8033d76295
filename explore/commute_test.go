package explore

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// TestIndependentStepsCommute draws states of worlds, and two steps of each that do not depend on each other
// by what they use. In both orders they must use the same, and lead to the same state.
func TestIndependentStepsCommute(t *testing.T) {
	testcheck.Stepped(t)
	for _, name := range []string{
		"two-claims-two-volumes", "claim-recreated", "two-volumes-one-claim", "claim-names-its-volume",
		"default-class-comes-late", "volume-migrated", "directory-claim-recreated", "directory-taken-back",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := scenario.Find(name)
			if err != nil {
				t.Fatal(err)
			}
			e, err := newSearch(t.Context(), s, Config{NoFaults: true})
			if err != nil {
				t.Fatal(err)
			}
			defer e.pool.Close()
			p := newParts()
			independent, local := 0, 0
			for seed := range uint64(400) {
				draw := &orderedWalk{parts: p, random: rand.New(rand.NewPCG(seed, 2)), steps: 3 + int(seed%60)}
				draw.run(t, e)
				if len(draw.enabled) < 2 {
					continue
				}
				a, b := draw.enabled[0], draw.enabled[1]
				one := &orderedWalk{parts: p, order: slices.Concat(draw.ran, []string{a, b})}
				other := &orderedWalk{parts: p, order: slices.Concat(draw.ran, []string{b, a})}
				one.run(t, e)
				other.run(t, e)
				n := len(draw.ran)
				if len(one.uses) < n+2 || len(other.uses) < n+2 {
					continue // one step prevents the other one, or the world is at rest
				}
				if one.uses[n].dependent(other.uses[n]) || one.opaque.found || other.opaque.found {
					continue
				}
				independent++
				if one.local[n] && other.local[n] {
					local++
				}
				if one.number != other.number || !slices.Equal(one.uses[n], other.uses[n+1]) || !slices.Equal(one.uses[n+1], other.uses[n]) {
					t.Fatalf("after %s: %s and %s depend on the order\n%v then %v\n%v then %v", strings.Join(draw.ran, ", "), a, b,
						p.names(one.uses[n]), p.names(one.uses[n+1]), p.names(other.uses[n]), p.names(other.uses[n+1]))
				}
			}
			t.Logf("%d pairs of independent steps, %d of local ones", independent, local)
			if independent < 20 || local < 5 {
				t.Error("want more")
			}
		})
	}
}

// An orderedWalk makes the steps of an order, or of a drawn one, and stops.
type orderedWalk struct {
	*observer
	parts  *parts
	order  []string   // of tasks
	random *rand.Rand // nil: order is given
	steps  int        // to draw

	know    *knowledge
	ran     []string
	uses    []footprint // of each step
	local   []bool
	enabled []string // in the last state, the drawn ones first
	number  uint64   // of the last state
	opaque  opaqueMemory
}

func (w *orderedWalk) run(t *testing.T, e *search) {
	t.Helper()
	w.observer, w.opaque.users = newObserver(w.parts), e.scenario.Users
	if _, err := e.runWithSetup(w, func(c *cluster.Cluster) {
		w.know = newKnowledge(c)
		w.watch(c)
	}); err != nil {
		t.Fatal(err)
	}
}

// Access adds a use of the memory of a process.
func (w *orderedWalk) Access(a sim.Access) {
	w.observer.Access(a)
	w.know.Access(a)
}

// Decide makes the next step.
func (w *orderedWalk) Decide(d *sim.Decision) sim.Move {
	uses, local := w.observer.begin(d.Step())
	if len(w.ran) > 0 {
		w.uses, w.local = append(w.uses, uses), append(w.local, local)
	}
	d.Task(d.Len() - 1) // in order
	choice := -1
	switch {
	case w.random != nil && len(w.ran) < w.steps:
		choice = w.random.IntN(d.Len())
	case w.random == nil && len(w.order) > 0:
		for i := range d.Len() {
			if d.Task(i).Name() == w.order[0] {
				choice, w.order = i, w.order[1:]
				break
			}
		}
	}
	if choice < 0 {
		for i := range d.Len() {
			w.enabled = append(w.enabled, d.Task(i).Name())
		}
		if w.random != nil {
			w.random.Shuffle(len(w.enabled), func(i, j int) { w.enabled[i], w.enabled[j] = w.enabled[j], w.enabled[i] })
		}
		w.number = w.know.number()
		w.know.host.WriteState(&w.opaque)
		return sim.Move{Stop: true}
	}
	w.ran = append(w.ran, d.Task(choice).Name())
	w.know.begin(d.Step(), d.Task(choice))
	return sim.Move{Option: choice}
}

// An opaqueMemory looks for processes other than users that do not say what they remember. The number of a
// state then depends on the order in which their tasks have read.
type opaqueMemory struct {
	users   []scenario.User
	process string
	found   bool
}

// Part notes the process.
func (o *opaqueMemory) Part(process, _ string) { o.process = process }

// Text does nothing.
func (*opaqueMemory) Text(string) {}

// Version does nothing.
func (*opaqueMemory) Version(string, string) {}

// Unknown is what it looks for.
func (o *opaqueMemory) Unknown() {
	isUser := func(u scenario.User) bool { return u.Name == o.process }
	o.found = o.found || !slices.ContainsFunc(o.users, isUser)
}

// names returns the parts of a footprint.
func (p *parts) names(f footprint) []string {
	var names []string
	for of, n := range p.numbers {
		if i := slices.IndexFunc(f, func(u use) bool { return u.part == n }); i >= 0 {
			names = append(names, of.process+": "+of.name)
		}
	}
	slices.Sort(names)
	return names
}
