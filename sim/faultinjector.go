package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// A FaultSpec describes what may go wrong in a world: a Fault of its calls, or an Event.
type FaultSpec struct {
	Name   string  // of a Fault, or the first word of an Event
	Target string  // limits it to events of this object, or to calls whose task or verb has this prefix; "": all
	Rate   float64 // probability at each step at which it can happen, below 1; 0: see Times
	Times  int     // how often it happens at most, at randomly drawn steps; 0: see Rate
}

// String returns the text form: "conflict(0.1)", "crash(pvcontroller, 1)".
func (s FaultSpec) String() string {
	var words []string
	if s.Target != "" {
		words = append(words, s.Target)
	}
	if s.Rate > 0 {
		words = append(words, strconv.FormatFloat(s.Rate, 'g', -1, 64))
	}
	if s.Times > 0 {
		words = append(words, strconv.Itoa(s.Times))
	}
	return s.Name + "(" + strings.Join(words, ", ") + ")"
}

// FaultSpecs lists what may go wrong in a world.
type FaultSpecs []FaultSpec

// String returns the text form: "conflict(0.1), crash(pvcontroller, 1)".
func (s FaultSpecs) String() string {
	words := make([]string, len(s))
	for i := range s {
		words[i] = s[i].String()
	}
	return strings.Join(words, ", ")
}

// ParseFaultSpecs parses the text form that String returns. Each spec is a name and, in
// parentheses, an optional target and a rate between 0 and 1 or a number of times. The error names
// the invalid part.
func ParseFaultSpecs(text string) (FaultSpecs, error) {
	var specs FaultSpecs
	for rest := strings.TrimSpace(text); rest != ""; {
		end := closingBracket(rest)
		if end < 0 {
			return nil, fmt.Errorf("faults %q: unclosed parenthesis in %q (want e.g. conflict(0.1), crash(pvcontroller, 1))",
				text, rest)
		}
		r, err := parseFaultSpec(rest[:end])
		if err != nil {
			return nil, fmt.Errorf("faults %q: %w", text, err)
		}
		specs = append(specs, r)
		rest = strings.TrimLeft(rest[end+1:], " ,\n")
	}
	return specs, nil
}

// closingBracket returns the index of the parenthesis that closes the first one, or -1.
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
		return r, fmt.Errorf("%q: want e.g. conflict(0.1)", s)
	}
	words := strings.Split(inside, ",")
	last := strings.TrimSpace(words[len(words)-1])
	r.Target = strings.TrimSpace(strings.Join(words[:len(words)-1], ","))
	n, rate := 0, 0.0
	var err error
	if n, err = strconv.Atoi(last); err != nil {
		rate, err = strconv.ParseFloat(last, 64)
	}
	r.Times, r.Rate = n, rate
	if err != nil || n == 0 && rate == 0 || r.validate() != nil {
		return r, fmt.Errorf("%s(%s): want a rate between 0 and 1 or a number of times up to %d as the last argument",
			r.Name, inside, timesMax)
	}
	return r, nil
}

// timesMax is the limit of FaultSpec.Times. Each time is drawn at the beginning of a run.
const timesMax = 1_000_000

// validate returns an error if the numbers of a spec are out of range.
func (s FaultSpec) validate() error {
	if !(s.Rate >= 0 && s.Rate < 1) { // NaN is not comparable
		return fmt.Errorf("fault %s: rate %v: want a rate between 0 and 1", s.Name, s.Rate)
	}
	if s.Times < 0 || s.Times > timesMax {
		return fmt.Errorf("fault %s: %d times: want up to %d", s.Name, s.Times, timesMax)
	}
	return nil
}

// A faultInjector is the Strategy that follows another one and injects faults. It does so during a
// number of steps only, so that the world can then come to rest. It is for one run.
type faultInjector struct {
	strategy Strategy
	random   *rand.Rand
	steps    int
	specs    []armedSpec
}

// An armedSpec is a FaultSpec during a run.
type armedSpec struct {
	FaultSpec
	fault Fault
	steps []int // of a number of times: the drawn steps, in order
}

// NewFaultInjector returns a strategy that injects faults into the runs of another one, as drawn
// from a seed, up to a step. verbs are the first words of the events of the world, except "tick".
// The error is for a spec that names neither a fault nor an event, or whose numbers are out of range.
func NewFaultInjector(
	strategy Strategy, seed uint64, specs FaultSpecs, steps int, verbs ...string,
) (Strategy, error) {
	f := &faultInjector{strategy: strategy, random: newRandom(seed, 0x6661756c74), steps: steps}
	for _, r := range specs {
		fault, err := ParseFault(r.Name)
		kind, _, _ := strings.Cut(r.Name, " ")
		switch {
		case err == nil, r.Name == "tick", slices.Contains(verbs, r.Name):
		case slices.Contains(FaultKinds, FaultKind(kind)):
			return nil, fmt.Errorf("fault spec %s: %w", r, err)
		default:
			return nil, fmt.Errorf("unknown fault %s: want one of %s, or an event of this world (%s)",
				r, faultKindList(), strings.Join(append(verbs, "tick"), ", "))
		}
		if err := r.validate(); err != nil {
			return nil, err
		}
		one := armedSpec{FaultSpec: r, fault: fault}
		for range r.Times {
			one.steps = append(one.steps, 1+f.random.IntN(max(1, steps)))
		}
		slices.Sort(one.steps)
		f.specs = append(f.specs, one)
	}
	return f, nil
}

// matchesEvent reports whether the spec covers an event.
func (s FaultSpec) matchesEvent(event string) bool {
	verb, object, _ := strings.Cut(event, " ")
	return verb == s.Name && (s.Target == "" || object == s.Target || strings.HasPrefix(object, s.Target+" "))
}

// Decide returns the move of the inner strategy, perhaps with a fault or an event injected.
func (f *faultInjector) Decide(d *Decision) Move {
	move := f.strategy.Decide(d)
	if d.Step() > f.steps || move.Stop || move.Event != "" {
		return move
	}
	for i := range f.specs {
		r := &f.specs[i]
		if r.fault.Kind == "" {
			if e := f.drawEvent(d, r); e != "" {
				return Move{Event: e}
			}
			continue
		}
		if move.Fault.Kind == "" && r.applies(d.Task(move.Option)) && f.draw(d, r) {
			move.Fault = r.fault
		}
	}
	return move
}

// applies reports whether the spec covers the call that a task makes. Calls of users are left
// alone: a script stops at the first error.
func (a *armedSpec) applies(t *Task) bool {
	action, calls := t.Pending()
	return calls && !t.IsUser() && a.fault.Applies(action) &&
		(a.Target == "" || strings.HasPrefix(t.Name(), a.Target) || strings.HasPrefix(action.Verb, a.Target))
}

// draw reports whether the fault happens now, as drawn.
func (f *faultInjector) draw(d *Decision, a *armedSpec) bool {
	if a.Times == 0 {
		return f.random.Float64() < a.Rate
	}
	if len(a.steps) > 0 && a.steps[0] <= d.Step() {
		a.steps = a.steps[1:]
		return true
	}
	return false
}

// drawEvent draws whether an event happens now, and which. It returns "" for none.
func (f *faultInjector) drawEvent(d *Decision, a *armedSpec) string {
	if a.Times > 0 && (len(a.steps) == 0 || a.steps[0] > d.Step()) {
		return ""
	}
	if a.Times == 0 && f.random.Float64() >= a.Rate {
		return ""
	}
	var possible []string
	for _, e := range d.eventsWithVerb(a.Name) {
		if a.matchesEvent(e) {
			possible = append(possible, e)
		}
	}
	if len(possible) == 0 {
		return ""
	}
	if a.Times > 0 {
		a.steps = a.steps[1:]
	}
	return possible[f.random.IntN(len(possible))]
}
