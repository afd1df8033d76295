package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Deviation is one way in which a schedule leaves the ordinary course, at one step.
type Deviation struct {
	Step    int
	What    string // "hold", "pick", "event", or the name of a Fault
	Subject string // the actor held, picked, or whose call goes wrong; the event
}

// The kinds of Deviation that are no Fault.
const (
	Hold  = "hold"  // the actor that would be moved is held back until nothing else can happen, for HoldSteps
	Pick  = "pick"  // another actor is moved than would be
	Event = "event" // something befalls the world
)

// HoldSteps is for how many decisions an actor that is held is moved last. A hold ends so that the others, who may never
// come to rest, do not starve it.
const HoldSteps = 60

// String gives "14 hold: pvcprotection/cache pods".
func (d Deviation) String() string { return fmt.Sprintf("%d %s: %s", d.Step, d.What, d.Subject) }

// ParseDeviation reads what String gives. The error names what is wrong.
func ParseDeviation(s string) (Deviation, error) {
	number, rest, _ := strings.Cut(strings.TrimSpace(s), " ")
	step, err := strconv.Atoi(number)
	if err != nil || step < 1 {
		return Deviation{}, fmt.Errorf("deviation %q: want a step, such as 14", s)
	}
	what, subject, found := strings.Cut(rest, ": ")
	if !found || subject == "" {
		return Deviation{}, fmt.Errorf("deviation %q: want STEP WHAT: SUBJECT", s)
	}
	if what != Hold && what != Pick && what != Event {
		if _, err := ParseFault(what); err != nil {
			return Deviation{}, fmt.Errorf("deviation %q: want hold, pick, event or a fault: %w", s, err)
		}
	}
	return Deviation{Step: step, What: what, Subject: subject}, nil
}

// Schedule is a whole order of events: the ordinary one, but for some deviations, by step.
type Schedule []Deviation

// String gives the deviations, separated by "; ". The ordinary course is "".
func (s Schedule) String() string {
	words := make([]string, len(s))
	for i, d := range s {
		words[i] = d.String()
	}
	return strings.Join(words, "; ")
}

// ParseSchedule reads what String gives; also a newline separates.
func ParseSchedule(text string) (Schedule, error) {
	var s Schedule
	for _, words := range strings.FieldsFunc(text, func(r rune) bool { return r == ';' || r == '\n' }) {
		if strings.TrimSpace(words) == "" {
			continue
		}
		d, err := ParseDeviation(words)
		if err != nil {
			return nil, err
		}
		s = append(s, d)
	}
	slices.SortStableFunc(s, func(a, b Deviation) int { return cmp.Compare(a.Step, b.Step) })
	return s, nil
}

// Plan is the Strategy of a Schedule. It is for one run.
type Plan struct {
	schedule Schedule
	next     int
	made     Schedule // the deviations that could be made
	held     map[*Actor]hold
	holds    int
	decided  int // decisions among more than one
	misfit   string
}

// hold is an actor that is held back.
type hold struct {
	rank  int // who is held later is held further back
	since int
}

// NewPlan returns the Strategy of a schedule. A hold or a fault of no subject is that of whoever's turn it is.
func NewPlan(s Schedule) *Plan { return &Plan{schedule: s} }

// Made are the deviations that could be made so far, each with its subject.
func (p *Plan) Made() Schedule { return p.made }

// Misfit tells of the first deviation that could not be made because the world was not as it must have been when it was
// noted; "" if all could.
func (p *Plan) Misfit() string {
	if p.misfit == "" && p.next < len(p.schedule) {
		return fmt.Sprintf("%s: the world came to rest before", p.schedule[p.next])
	}
	return p.misfit
}

// Decide makes the deviations of this step.
func (p *Plan) Decide(d *Decision) Move {
	if p.next == len(p.schedule) && len(p.held) == 0 {
		return Move{}
	}
	var move Move
	p.release()
	move.Option = p.foremost(d)
	for p.next < len(p.schedule) && p.schedule[p.next].Step <= d.Step() {
		p.deviate(d, p.schedule[p.next], &move)
		p.next++
		if move.Event != "" {
			return move
		}
	}
	if d.Len() > 1 {
		p.decided++
	}
	return move
}

// deviate makes one deviation, or says why not.
func (p *Plan) deviate(d *Decision, v Deviation, move *Move) {
	switch v.What {
	case Event:
		if !slices.Contains(d.eventsOf(verbOf(v.Subject)), v.Subject) {
			p.miss(v, "it cannot happen here")
			return
		}
		move.Event = v.Subject
		p.made = append(p.made, v)
	case Hold:
		a := d.Actor(move.Option)
		if v.Subject != "" && label(d, move.Option) != v.Subject {
			p.miss(v, "it is the turn of "+label(d, move.Option))
			return
		}
		p.make(d, v, move.Option)
		p.hold(a)
		move.Option = p.foremost(d)
	case Pick:
		i := find(d, v.Subject)
		if i < 0 {
			p.miss(v, "it has nothing to do")
			return
		}
		move.Option = i
		p.made = append(p.made, v)
	default:
		fault, err := ParseFault(v.What)
		action, calls := d.Actor(move.Option).Pending()
		if err != nil || v.Subject != "" && label(d, move.Option) != v.Subject || !calls || !fault.Applies(action) {
			p.miss(v, "it is the turn of "+label(d, move.Option))
			return
		}
		p.make(d, v, move.Option)
		move.Fault = fault
	}
}

// make notes a deviation that is about an actor.
func (p *Plan) make(d *Decision, v Deviation, option int) {
	v.Subject = label(d, option)
	p.made = append(p.made, v)
}

func (p *Plan) miss(v Deviation, why string) {
	if p.misfit == "" {
		p.misfit = fmt.Sprintf("%s: %s", v, why)
	}
}

func (p *Plan) hold(a *Actor) {
	if p.held == nil {
		p.held = map[*Actor]hold{}
	}
	p.holds++
	p.held[a] = hold{rank: p.holds, since: p.decided}
}

// release ends the holds that have lasted long enough.
func (p *Plan) release() {
	for a, h := range p.held { // each is judged for itself: no order
		if p.decided-h.since > HoldSteps {
			delete(p.held, a)
		}
	}
}

// foremost is the first actor in the ordinary order that is not held, or the one that was held first.
func (p *Plan) foremost(d *Decision) int {
	if len(p.held) == 0 {
		return 0
	}
	best, rank := 0, 0
	for i := range d.Len() {
		h, held := p.held[d.Actor(i)]
		if !held {
			return i
		}
		if rank == 0 || h.rank < rank {
			best, rank = i, h.rank
		}
	}
	return best
}

// label names the i-th actor of a decision: its name, with a number where several have it.
func label(d *Decision, i int) string {
	a := d.Actor(i)
	d.Actor(d.Len() - 1) // in order
	same, which := 0, 0
	for j := range d.Len() {
		if d.options[j].full == a.full {
			same++
			if d.options[j] == a {
				which = same
			}
		}
	}
	if same > 1 {
		return a.full + "#" + strconv.Itoa(which)
	}
	return a.full
}

// find is the actor with a label, or -1.
func find(d *Decision, name string) int {
	d.Actor(d.Len() - 1) // in order
	for i := range d.Len() {
		if strings.HasPrefix(name, d.options[i].full) && label(d, i) == name {
			return i
		}
	}
	return -1
}
