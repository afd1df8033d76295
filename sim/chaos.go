package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Risk is something that may go wrong in a world: a Fault of its calls, or an event that befalls it.
type Risk struct {
	Name  string  // of a Fault, or the first word of an event
	Of    string  // limits it to events of this object, or to calls by components or of verbs that begin so. "": all
	Rate  float64 // how probable it is at each step at which it could happen, below 1. 0: see Times
	Times int     // how often it happens at most, at steps that are drawn. 0: see Rate
}

// String gives "conflict(0.1)", "crash(pvcontroller, 1)".
func (r Risk) String() string {
	var words []string
	if r.Of != "" {
		words = append(words, r.Of)
	}
	if r.Rate > 0 {
		words = append(words, strconv.FormatFloat(r.Rate, 'g', -1, 64))
	}
	if r.Times > 0 {
		words = append(words, strconv.Itoa(r.Times))
	}
	return r.Name + "(" + strings.Join(words, ", ") + ")"
}

// Risks are what may go wrong in a world.
type Risks []Risk

// String gives "conflict(0.1), crash(pvcontroller, 1)".
func (r Risks) String() string {
	words := make([]string, len(r))
	for i := range r {
		words[i] = r[i].String()
	}
	return strings.Join(words, ", ")
}

// ParseRisks reads what String gives: names, each with a rate between 0 and 1 or a number of times in brackets, before
// which may stand of what. The error names what is wrong.
func ParseRisks(text string) (Risks, error) {
	var risks Risks
	for rest := strings.TrimSpace(text); rest != ""; {
		end := closing(rest)
		if end < 0 {
			return nil, fmt.Errorf("faults %q: %q has no closing bracket: want such as conflict(0.1), crash(pvcontroller, 1)", text, rest)
		}
		r, err := parseRisk(rest[:end])
		if err != nil {
			return nil, fmt.Errorf("faults %q: %w", text, err)
		}
		risks = append(risks, r)
		rest = strings.TrimLeft(rest[end+1:], " ,\n")
	}
	return risks, nil
}

// closing is the place of the bracket that closes the first one, or -1.
func closing(s string) int {
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

func parseRisk(s string) (Risk, error) {
	name, inside, found := strings.Cut(s, "(")
	r := Risk{Name: strings.TrimSpace(name)}
	if !found || r.Name == "" {
		return r, fmt.Errorf("%q: want such as conflict(0.1)", s)
	}
	words := strings.Split(inside, ",")
	last := strings.TrimSpace(words[len(words)-1])
	r.Of = strings.TrimSpace(strings.Join(words[:len(words)-1], ","))
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

// Chaos is the Strategy that does as another one does, but lets things go wrong: for the first so many steps, so that the
// world can then come to rest. It is for one run.
type Chaos struct {
	strategy Strategy
	chance   *rand.Rand
	steps    int
	risks    []risk
}

// risk is a Risk at work.
type risk struct {
	Risk
	fault Fault
	at    []int // of a number of times: the steps drawn, in order
}

// NewChaos lets risks happen beside a strategy, as drawn from a seed, up to a step. verbs are the first words of the events
// that could befall the world, besides "tick". It fails for a risk that names neither a fault nor an event.
func NewChaos(strategy Strategy, seed uint64, risks Risks, steps int, verbs ...string) (*Chaos, error) {
	c := &Chaos{strategy: strategy, chance: random(seed, 0x6661756c74), steps: steps}
	for _, r := range risks {
		fault, err := ParseFault(r.Name)
		if err != nil && r.Name != "tick" && !slices.Contains(verbs, r.Name) {
			return nil, fmt.Errorf("fault %s: want one of %v, or an event of this world: %s", r, FaultKinds, strings.Join(append(verbs, "tick"), ", "))
		}
		one := risk{Risk: r, fault: fault}
		for range r.Times {
			one.at = append(one.at, 1+c.chance.IntN(max(1, steps)))
		}
		slices.Sort(one.at)
		c.risks = append(c.risks, one)
	}
	return c, nil
}

// names tells whether an event is one of the risk's.
func (r Risk) names(event string) bool {
	verb, object, _ := strings.Cut(event, " ")
	return verb == r.Name && (r.Of == "" || object == r.Of || strings.HasPrefix(object, r.Of+" "))
}

// Decide asks the strategy within, and may let something go wrong.
func (c *Chaos) Decide(d *Decision) Move {
	move := c.strategy.Decide(d)
	if d.Step() > c.steps || move.Stop || move.Event != "" {
		return move
	}
	for i := range c.risks {
		r := &c.risks[i]
		if r.fault.Kind == "" {
			if e := c.event(d, r); e != "" {
				return Move{Event: e}
			}
			continue
		}
		if move.Fault.Kind == "" && r.threatens(d.Actor(move.Option)) && c.strikes(d, r) {
			move.Fault = r.fault
		}
	}
	return move
}

// threatens tells whether the call that an actor makes can go wrong in this way. Those of users do not: a script gives up.
func (r *risk) threatens(a *Actor) bool {
	action, calls := a.Pending()
	return calls && !a.IsUser() && r.fault.Applies(action) &&
		(r.Of == "" || strings.HasPrefix(a.Name(), r.Of) || strings.HasPrefix(action.Verb, r.Of))
}

// strikes draws whether it happens now.
func (c *Chaos) strikes(d *Decision, r *risk) bool {
	if r.Times == 0 {
		return c.chance.Float64() < r.Rate
	}
	if len(r.at) > 0 && r.at[0] <= d.Step() {
		r.at = r.at[1:]
		return true
	}
	return false
}

// event draws whether an event happens now, and which; "" if none does.
func (c *Chaos) event(d *Decision, r *risk) string {
	if r.Times > 0 && (len(r.at) == 0 || r.at[0] > d.Step()) {
		return ""
	}
	if r.Times == 0 && c.chance.Float64() >= r.Rate {
		return ""
	}
	var possible []string
	for _, e := range d.eventsOf(r.Name) {
		if r.names(e) {
			possible = append(possible, e)
		}
	}
	if len(possible) == 0 {
		return ""
	}
	if r.Times > 0 {
		r.at = r.at[1:]
	}
	return possible[c.chance.IntN(len(possible))]
}
