package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// FaultSpec is something that may go wrong in a world: a Fault of its calls, or an event that befalls it.
type FaultSpec struct {
	Name   string  // of a Fault, or the first word of an event
	Target string  // limits it to events of this object, or to calls by components or of verbs that begin so. "": all
	Rate   float64 // how probable it is at each step at which it could happen, below 1. 0: see Times
	Times  int     // how often it happens at most, at steps that are drawn. 0: see Rate
}

// String gives "conflict(0.1)", "crash(pvcontroller, 1)".
func (r FaultSpec) String() string {
	var words []string
	if r.Target != "" {
		words = append(words, r.Target)
	}
	if r.Rate > 0 {
		words = append(words, strconv.FormatFloat(r.Rate, 'g', -1, 64))
	}
	if r.Times > 0 {
		words = append(words, strconv.Itoa(r.Times))
	}
	return r.Name + "(" + strings.Join(words, ", ") + ")"
}

// FaultSpecs are what may go wrong in a world.
type FaultSpecs []FaultSpec

// String gives "conflict(0.1), crash(pvcontroller, 1)".
func (r FaultSpecs) String() string {
	words := make([]string, len(r))
	for i := range r {
		words[i] = r[i].String()
	}
	return strings.Join(words, ", ")
}

// ParseFaultSpecs reads what String gives: names, each with a rate between 0 and 1 or a number of times in brackets, before
// which may stand of what. The error names what is wrong.
func ParseFaultSpecs(text string) (FaultSpecs, error) {
	var risks FaultSpecs
	for rest := strings.TrimSpace(text); rest != ""; {
		end := closingBracket(rest)
		if end < 0 {
			return nil, fmt.Errorf("faults %q: %q has no closing bracket: want such as conflict(0.1), crash(pvcontroller, 1)", text, rest)
		}
		r, err := parseFaultSpec(rest[:end])
		if err != nil {
			return nil, fmt.Errorf("faults %q: %w", text, err)
		}
		risks = append(risks, r)
		rest = strings.TrimLeft(rest[end+1:], " ,\n")
	}
	return risks, nil
}

// closingBracket is the place of the bracket that closes the first one, or -1.
func closingBracket(s string) int {
	depth := 0
	for i, r := range s {
		switch r {
		case '(':
			depth++
		case ')':
			if depth--; depth <= 0 {
				return i
			}
		}
	}
	return -1
}

func parseFaultSpec(s string) (FaultSpec, error) {
	name, inside, found := strings.Cut(s, "(")
	r := FaultSpec{Name: strings.TrimSpace(name)}
	if !found || r.Name == "" {
		return r, fmt.Errorf("%q: want such as conflict(0.1)", s)
	}
	words := strings.Split(inside, ",")
	last := strings.TrimSpace(words[len(words)-1])
	r.Target = strings.TrimSpace(strings.Join(words[:len(words)-1], ","))
	if n, err := strconv.Atoi(last); err == nil && n > 0 {
		r.Times = n
		return r, nil
	}
	rate, err := strconv.ParseFloat(last, 64)
	if err != nil || rate <= 0 || rate >= 1 {
		return r, fmt.Errorf("%s(%s): want a rate between 0 and 1, or a number of times, last in the brackets", r.Name, inside)
	}
	r.Rate = rate
	return r, nil
}

// FaultInjector is the Strategy that does as another one does, but lets things go wrong: for the first so many steps, so that the
// world can then come to rest. It is for one run.
type FaultInjector struct {
	strategy Strategy
	random   *rand.Rand
	steps    int
	specs    []armedSpec
}

// armedSpec is a Risk at work.
type armedSpec struct {
	FaultSpec
	fault Fault
	steps []int // of a number of times: the steps drawn, in order
}

// NewFaultInjector lets risks happen beside a strategy, as drawn from a seed, up to a step. verbs are the first words of the events
// that could befall the world, besides "tick". It fails for a risk that names neither a fault nor an event.
func NewFaultInjector(strategy Strategy, seed uint64, risks FaultSpecs, steps int, verbs ...string) (*FaultInjector, error) {
	c := &FaultInjector{strategy: strategy, random: newRandom(seed, 0x6661756c74), steps: steps}
	for _, r := range risks {
		fault, err := ParseFault(r.Name)
		if err != nil && r.Name != "tick" && !slices.Contains(verbs, r.Name) {
			return nil, fmt.Errorf("fault %s: want one of %v, or an event of this world: %s", r, FaultKinds, strings.Join(append(verbs, "tick"), ", "))
		}
		one := armedSpec{FaultSpec: r, fault: fault}
		for range r.Times {
			one.steps = append(one.steps, 1+c.random.IntN(max(1, steps)))
		}
		slices.Sort(one.steps)
		c.specs = append(c.specs, one)
	}
	return c, nil
}

// matchesEvent tells whether an event is one of the risk's.
func (r FaultSpec) matchesEvent(event string) bool {
	verb, object, _ := strings.Cut(event, " ")
	return verb == r.Name && (r.Target == "" || object == r.Target || strings.HasPrefix(object, r.Target+" "))
}

// Decide asks the strategy within, and may let something go wrong.
func (c *FaultInjector) Decide(d *Decision) Move {
	move := c.strategy.Decide(d)
	if d.Step() > c.steps || move.Stop || move.Event != "" {
		return move
	}
	for i := range c.specs {
		r := &c.specs[i]
		if r.fault.Kind == "" {
			if e := c.drawEvent(d, r); e != "" {
				return Move{Event: e}
			}
			continue
		}
		if move.Fault.Kind == "" && r.applies(d.Task(move.Option)) && c.draw(d, r) {
			move.Fault = r.fault
		}
	}
	return move
}

// applies tells whether the call that an actor makes can go wrong in this way. Those of users do not: a script gives up.
func (r *armedSpec) applies(a *Task) bool {
	action, calls := a.Pending()
	return calls && !a.IsUser() && r.fault.Applies(action) &&
		(r.Target == "" || strings.HasPrefix(a.Name(), r.Target) || strings.HasPrefix(action.Verb, r.Target))
}

// draw draws whether it happens now.
func (c *FaultInjector) draw(d *Decision, r *armedSpec) bool {
	if r.Times == 0 {
		return c.random.Float64() < r.Rate
	}
	if len(r.steps) > 0 && r.steps[0] <= d.Step() {
		r.steps = r.steps[1:]
		return true
	}
	return false
}

// drawEvent draws whether an event happens now, and which; "" if none does.
func (c *FaultInjector) drawEvent(d *Decision, r *armedSpec) string {
	if r.Times > 0 && (len(r.steps) == 0 || r.steps[0] > d.Step()) {
		return ""
	}
	if r.Times == 0 && c.random.Float64() >= r.Rate {
		return ""
	}
	var possible []string
	for _, e := range d.eventsWithVerb(r.Name) {
		if r.matchesEvent(e) {
			possible = append(possible, e)
		}
	}
	if len(possible) == 0 {
		return ""
	}
	if r.Times > 0 {
		r.steps = r.steps[1:]
	}
	return possible[c.random.IntN(len(possible))]
}
