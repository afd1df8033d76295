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
	DeviationHold  = "hold"  // the actor that would be moved is held back until nothing else can happen, for HoldSteps
	DeviationPick  = "pick"  // another actor is moved than would be
	DeviationEvent = "event" // something befalls the world
)

// holdSteps is for how many decisions an actor that is held is moved last. A hold ends so that the others, who may never
// come to rest, do not starve it.
const holdSteps = 60

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
	if what != DeviationHold && what != DeviationPick && what != DeviationEvent {
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

// ReplayStrategy is the Strategy of a Schedule. It is for one run.
type ReplayStrategy struct {
	schedule  Schedule
	next      int
	applied   Schedule // the deviations that could be made
	held      map[*Task]hold
	holds     int
	decisions int // decisions among more than one
	mismatch  string
}

// hold is an actor that is held back.
type hold struct {
	rank  int // who is held later is held further back
	since int
}

// NewReplayStrategy returns the Strategy of a schedule. A hold or a fault of no subject is that of whoever's turn it is.
func NewReplayStrategy(s Schedule) *ReplayStrategy { return &ReplayStrategy{schedule: s} }

// Applied are the deviations that could be made so far, each with its subject.
func (p *ReplayStrategy) Applied() Schedule { return p.applied }

// Mismatch tells of the first deviation that could not be made because the world was not as it must have been when it was
// noted; "" if all could.
func (p *ReplayStrategy) Mismatch() string {
	if p.mismatch == "" && p.next < len(p.schedule) {
		return fmt.Sprintf("%s: the world came to rest before", p.schedule[p.next])
	}
	return p.mismatch
}

// Decide makes the deviations of this step.
func (p *ReplayStrategy) Decide(d *Decision) Move {
	if p.next == len(p.schedule) && len(p.held) == 0 {
		return Move{}
	}
	var move Move
	p.release()
	move.Option = p.firstRunnable(d)
	for p.next < len(p.schedule) && p.schedule[p.next].Step <= d.Step() {
		p.apply(d, p.schedule[p.next], &move)
		p.next++
		if move.Event != "" {
			return move
		}
	}
	if d.Len() > 1 {
		p.decisions++
	}
	return move
}

// apply makes one deviation, or says why not.
func (p *ReplayStrategy) apply(d *Decision, v Deviation, move *Move) {
	switch v.What {
	case DeviationEvent:
		if !slices.Contains(d.eventsWithVerb(verbOf(v.Subject)), v.Subject) {
			p.recordMismatch(v, "it cannot happen here")
			return
		}
		move.Event = v.Subject
		p.applied = append(p.applied, v)
	case DeviationHold:
		a := d.Task(move.Option)
		if v.Subject != "" && label(d, move.Option) != v.Subject {
			p.recordMismatch(v, "it is the turn of "+label(d, move.Option))
			return
		}
		p.recordApplied(d, v, move.Option)
		p.hold(a)
		move.Option = p.firstRunnable(d)
	case DeviationPick:
		i := find(d, v.Subject)
		if i < 0 {
			p.recordMismatch(v, "it has nothing to do")
			return
		}
		move.Option = i
		p.applied = append(p.applied, v)
	default:
		fault, err := ParseFault(v.What)
		action, calls := d.Task(move.Option).Pending()
		if err != nil || v.Subject != "" && label(d, move.Option) != v.Subject || !calls || !fault.Applies(action) {
			p.recordMismatch(v, "it is the turn of "+label(d, move.Option))
			return
		}
		p.recordApplied(d, v, move.Option)
		move.Fault = fault
	}
}

// recordApplied notes a deviation that is about an actor.
func (p *ReplayStrategy) recordApplied(d *Decision, v Deviation, option int) {
	v.Subject = label(d, option)
	p.applied = append(p.applied, v)
}

func (p *ReplayStrategy) recordMismatch(v Deviation, why string) {
	if p.mismatch == "" {
		p.mismatch = fmt.Sprintf("%s: %s", v, why)
	}
}

func (p *ReplayStrategy) hold(a *Task) {
	if p.held == nil {
		p.held = map[*Task]hold{}
	}
	p.holds++
	p.held[a] = hold{rank: p.holds, since: p.decisions}
}

// release ends the holds that have lasted long enough.
func (p *ReplayStrategy) release() {
	for a, h := range p.held { // each is judged for itself: no order
		if p.decisions-h.since > holdSteps {
			delete(p.held, a)
		}
	}
}

// firstRunnable is the first actor in the ordinary order that is not held, or the one that was held first.
func (p *ReplayStrategy) firstRunnable(d *Decision) int {
	if len(p.held) == 0 {
		return 0
	}
	best, rank := 0, 0
	for i := range d.Len() {
		h, held := p.held[d.Task(i)]
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
	a := d.Task(i)
	d.Task(d.Len() - 1) // in order
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
	d.Task(d.Len() - 1) // in order
	for i := range d.Len() {
		if strings.HasPrefix(name, d.options[i].full) && label(d, i) == name {
			return i
		}
	}
	return -1
}
