package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Deviation is one difference between a schedule and the default order, at one step.
type Deviation struct {
	Step    int
	What    string // "hold", "hold until idle", "pick", "event", or the text form of a Fault
	Subject string // the task that is held or picked or whose call fails; the event
}

// The kinds of Deviation, besides faults.
const (
	DeviationHold  = "hold"  // the task that would run runs last, for a bounded number of decisions
	DeviationPick  = "pick"  // another task runs than in the default order
	DeviationEvent = "event" // an event is injected

	DeviationHoldUntilIdle = "hold until idle" // the task that would run runs when no other task can
)

// HoldSteps is the number of decisions for which a held task runs last. A hold ends, so that other
// tasks, which may never come to rest, do not starve it.
const HoldSteps = 60

// idleHoldSteps is the bound for a task that is held until no other task can run. Others may try again
// and again until it has run.
const idleHoldSteps = 400

// String returns the text form: "14 hold: pvcprotection/cache pods".
func (d Deviation) String() string { return fmt.Sprintf("%d %s: %s", d.Step, d.What, d.Subject) }

// ParseDeviation parses the text form that String returns. The error names the invalid part.
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
	if !slices.Contains([]string{DeviationHold, DeviationHoldUntilIdle, DeviationPick, DeviationEvent}, what) {
		if _, err := ParseFault(what); err != nil {
			return Deviation{}, fmt.Errorf("deviation %q: want hold, pick, event or a fault: %w", s, err)
		}
	}
	return Deviation{Step: step, What: what, Subject: subject}, nil
}

// A Schedule is a complete order of events: the deviations from the default order, by step.
type Schedule []Deviation

// String returns the deviations, separated by "; ". The default order is "".
func (s Schedule) String() string {
	words := make([]string, len(s))
	for i, d := range s {
		words[i] = d.String()
	}
	return strings.Join(words, "; ")
}

// ParseSchedule parses the text form that String returns. Newlines separate deviations, too.
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
	slices.SortStableFunc(s, func(t, b Deviation) int { return cmp.Compare(t.Step, b.Step) })
	return s, nil
}

// A ReplayStrategy is the Strategy that replays a Schedule. It is for one run.
type ReplayStrategy struct {
	schedule  Schedule
	next      int
	applied   Schedule // the deviations that were possible
	held      map[*Task]hold
	holds     int
	decisions int // decisions with more than one task
	mismatch  string
}

// A hold describes a task that is held.
type hold struct {
	rank  int // a task that is held later runs later
	until int // number of decisions after which it ends
}

// NewReplayStrategy returns the Strategy of a schedule. A hold or a fault without a subject applies
// to the task that would run.
func NewReplayStrategy(s Schedule) *ReplayStrategy { return &ReplayStrategy{schedule: s} }

// Applied returns the deviations that were applied so far, each with its subject.
func (r *ReplayStrategy) Applied() Schedule { return r.applied }

// Mismatch describes the first deviation that was not possible, because the world differs from the
// one in which the schedule was recorded. It returns "" if all were possible.
func (r *ReplayStrategy) Mismatch() string {
	if r.mismatch == "" && r.next < len(r.schedule) {
		return fmt.Sprintf("%s: the world was at rest before", r.schedule[r.next])
	}
	return r.mismatch
}

// Decide applies the deviations of this step.
func (r *ReplayStrategy) Decide(d *Decision) Move {
	if r.next == len(r.schedule) && len(r.held) == 0 {
		return Move{}
	}
	var move Move
	r.release()
	move.Option = r.firstRunnable(d)
	for r.next < len(r.schedule) && r.schedule[r.next].Step <= d.Step() {
		r.apply(d, r.schedule[r.next], &move)
		r.next++
		if move.Event != "" {
			return move
		}
	}
	if d.Len() > 1 {
		r.decisions++
	}
	return move
}

// apply applies one deviation, or records why it is not possible.
func (r *ReplayStrategy) apply(d *Decision, v Deviation, move *Move) {
	switch v.What {
	case DeviationEvent:
		if !slices.Contains(d.eventsWithVerb(verbOf(v.Subject)), v.Subject) {
			r.recordMismatch(v, "it cannot happen here")
			return
		}
		move.Event = v.Subject
		r.applied = append(r.applied, v)
	case DeviationHold, DeviationHoldUntilIdle:
		t := d.Task(move.Option)
		if v.Subject != "" && label(d, move.Option) != v.Subject {
			r.recordMismatch(v, "the next task is "+label(d, move.Option))
			return
		}
		r.recordApplied(d, v, move.Option)
		r.hold(t, v.What)
		move.Option = r.firstRunnable(d)
	case DeviationPick:
		i := find(d, v.Subject)
		if i < 0 {
			r.recordMismatch(v, "the task cannot run")
			return
		}
		move.Option = i
		r.applied = append(r.applied, v)
	default:
		fault, err := ParseFault(v.What)
		action, calls := d.Task(move.Option).Pending()
		if err != nil || v.Subject != "" && label(d, move.Option) != v.Subject || !calls || !fault.Applies(action) {
			r.recordMismatch(v, "the next task is "+label(d, move.Option))
			return
		}
		r.recordApplied(d, v, move.Option)
		move.Fault = fault
	}
}

// recordApplied records a deviation that concerns a task.
func (r *ReplayStrategy) recordApplied(d *Decision, v Deviation, option int) {
	v.Subject = label(d, option)
	r.applied = append(r.applied, v)
}

func (r *ReplayStrategy) recordMismatch(v Deviation, why string) {
	if r.mismatch == "" {
		r.mismatch = fmt.Sprintf("%s: %s", v, why)
	}
}

func (r *ReplayStrategy) hold(t *Task, what string) {
	if r.held == nil {
		r.held = map[*Task]hold{}
	}
	r.holds++
	lasts := HoldSteps
	if what == DeviationHoldUntilIdle {
		lasts = idleHoldSteps
	}
	r.held[t] = hold{rank: r.holds, until: r.decisions + lasts}
}

// release ends the holds that have lasted long enough.
func (r *ReplayStrategy) release() {
	for t, h := range r.held { // independent of the order
		if r.decisions > h.until {
			delete(r.held, t)
		}
	}
}

// firstRunnable returns the index of the first task in the default order that is not held, or of
// the one that was held first.
func (r *ReplayStrategy) firstRunnable(d *Decision) int {
	if len(r.held) == 0 {
		return 0
	}
	best, rank := 0, 0
	for i := range d.Len() {
		h, held := r.held[d.Task(i)]
		if !held {
			return i
		}
		if rank == 0 || h.rank < rank {
			best, rank = i, h.rank
		}
	}
	return best
}

// label returns the name of the i-th task of a decision, with a number if several tasks have that
// name.
func label(d *Decision, i int) string {
	t := d.Task(i)
	d.Task(d.Len() - 1) // in order
	same, which := 0, 0
	for j := range d.Len() {
		if d.options[j].full == t.full {
			same++
			if d.options[j] == t {
				which = same
			}
		}
	}
	if same > 1 {
		return t.full + "#" + strconv.Itoa(which)
	}
	return t.full
}

// find returns the index of the task with a label, or -1.
func find(d *Decision, name string) int {
	d.Task(d.Len() - 1) // in order
	for i := range d.Len() {
		if strings.HasPrefix(name, d.options[i].full) && label(d, i) == name {
			return i
		}
	}
	return -1
}
