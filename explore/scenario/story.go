package scenario

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// Story tells in plain words how a run under the scenario's schedule went: who wrote what, who read what, what was refused,
// and which cache had not heard of what, as far as it has to do with the objects of the failure. The set-up is left out. Steps
// have the numbers that the schedule has; its deviations are marked with ">>" where they happen. At the end stands the rule
// that is broken, and, for a scenario that is kept in a File, the command that runs it again. "rv" is a resourceVersion; names
// made of random numbers are cut after eight characters.
func Story(s *Scenario, r *Result) string {
	all := r.Trace.Records()
	began := slices.IndexFunc(all, func(one trace.Record) bool { return one.Step > r.Began })
	if began < 0 {
		began = len(all)
	}
	t := &teller{
		cast: castOf(all, r.Failure), hearsay: trace.NewHearsay(), missed: map[string][]*trace.Record{},
		records: all[began:], deviations: slices.Clone(s.Schedule), involved: map[string]bool{}, stranded: map[string]bool{},
	}
	for i := range all[:began] {
		t.hearsay.Note(&all[i], t.cast.Concerns(&all[i]))
		t.at = all[i].At
	}
	trace.Number(t.records)
	t.begin(r.Failure)
	t.tell()
	t.end(s, r)
	return t.text()
}

// teller tells the story of one run.
type teller struct {
	cast       *trace.Cast
	hearsay    *trace.Hearsay
	missed     map[string][]*trace.Record // by part: the writes that it was said not to have heard of
	records    []trace.Record             // after the set-up
	deviations sim.Schedule               // yet to come
	broken     int                        // the step of the trace at which the rule was broken; 0: at none
	cycle      int                        // the index of the first record of what comes again and again; that of the end if nothing does
	until      int                        // the index of the record before which the story ends
	involved   map[string]bool
	stranded   map[string]bool // parts of which it matters which strand does something
	at         time.Duration
	lines      []string
	turn       int // of the last line
}

// begin finds whom the failure is about.
func (t *teller) begin(failure error) {
	t.cycle, t.until = len(t.records), len(t.records)
	var violation *invariant.Violation
	var livelock *Livelock
	switch {
	case errors.As(failure, &violation):
		t.broken = violation.Step
		for i := range t.records {
			if t.records[i].Step == t.broken {
				t.involved[trace.Component(t.records[i].Actor)] = true
			}
		}
	case errors.As(failure, &livelock) && livelock.Cycle != nil:
		t.cycle = firstRound(t.records, len(livelock.Cycle))
		t.until = min(t.cycle+len(livelock.Cycle), len(t.records))
	}
	for _, d := range t.deviations {
		if d.What == sim.Event {
			_, of, _ := strings.Cut(d.Subject, " ")
			part, _, _ := strings.Cut(of, " ")
			t.involved[part] = true
			continue
		}
		part := trace.Component(d.Subject)
		t.involved[part] = true
		if !strings.Contains(d.Subject, "/cache ") {
			t.stranded[part] = true
		}
	}
}

// firstRound is where rounds of so many records, the last of which ends with the log, begin to be the same.
func firstRound(records []trace.Record, round int) int {
	same := func(a, b *trace.Record) bool {
		return a.Actor == b.Actor && a.Action == b.Action && (a.Err == nil) == (b.Err == nil)
	}
	at := max(0, len(records)-round)
	for at > 0 && same(&records[at-1], &records[at-1+round]) {
		at--
	}
	return at
}

// tell tells of all records.
func (t *teller) tell() {
	for i := range t.records[:t.until] {
		r := &t.records[i]
		t.mark(r.Turn, t.records[i:])
		concerns := t.cast.Concerns(r)
		switch {
		case r.Kind == trace.KindEvent:
			t.line(r, ">> "+trace.TellEvent(r.Verb, r.Object))
			delete(t.missed, trace.Dies(r))
		case r.Kind == trace.KindDeliver:
			t.deliver(r)
		case t.tells(i, concerns):
			t.line(r, t.who(r.Actor)+" "+trace.TellAll(*r)+stamp(r))
			t.ignorance(r)
		}
		t.hearsay.Note(r, concerns)
	}
	if t.until == len(t.records) {
		t.mark(math.MaxInt, nil)
	}
}

// mark tells of the deviations up to a step. Events are told of when they happen.
func (t *teller) mark(turn int, later []trace.Record) {
	for len(t.deviations) > 0 && t.deviations[0].Step <= turn {
		d := t.deviations[0]
		t.deviations = t.deviations[1:]
		if d.What == sim.Event {
			continue
		}
		t.lines = append(t.lines, numbered(d.Step, ">> "+mark(d, later)))
	}
}

// tells decides whether a record is told of.
func (t *teller) tells(i int, concerns bool) bool {
	r := &t.records[i]
	_, told := trace.Tell(*r)
	part := trace.Component(r.Actor)
	switch {
	case r.Kind != trace.KindAPI && r.Kind != trace.KindDriver:
		return false
	case r.Step == t.broken:
		return true
	case r.Kind == trace.KindDriver:
		return concerns && told
	case i >= t.cycle:
		return concerns
	case r.Verb == "list":
		return t.involved[part] && watched[r.Resource()]
	case r.After == nil && r.Err == nil, r.Err != nil && !told: // a read; something that was not there any more
		return concerns && t.involved[part]
	default:
		return concerns && (told || len(trace.Changes(r.Before, r.After)) > 0)
	}
}

// who names who acts, with the strand where that matters.
func (t *teller) who(actor string) string {
	if part := trace.Component(actor); !t.stranded[part] {
		return part
	}
	return trace.Strand(actor)
}

// stamp gives the version of what was read or written.
func stamp(r *trace.Record) string {
	if v := r.Version(); v > 0 && r.Kind == trace.KindAPI {
		return fmt.Sprintf(" (rv %d)", v)
	}
	return ""
}

// ignorance tells what who acts did not know when it decided what to do: what happened to the object since, and what its
// caches had not heard of, unless that has been told.
func (t *teller) ignorance(r *trace.Record) {
	part := trace.Component(r.Actor)
	basis, has := t.hearsay.Basis(r.Actor)
	if !has {
		return
	}
	var words []string
	reads := r.After == nil && r.Err == nil
	if since := t.hearsay.Since(r, basis); len(since) > 0 && !reads {
		words = append(words, fmt.Sprintf("it decided so in step %d, before %s", basis.Record.Turn, stepsOf(since)))
	}
	if !slices.Equal(basis.Unheard, t.missed[part]) {
		for _, unheard := range byResource(basis.Unheard) {
			words = append(words, fmt.Sprintf("its %s cache had not heard of %s", trace.Noun(unheard[0].Resource()), stepsOf(unheard)))
		}
	}
	if len(words) > 0 {
		t.lines = append(t.lines, "      ("+strings.Join(words, "; ")+")")
	}
	t.missed[part] = basis.Unheard
}

// byResource parts writes by their resources, in the order of the first of each.
func byResource(writes []*trace.Record) [][]*trace.Record {
	var parts [][]*trace.Record
	for _, w := range writes {
		i := slices.IndexFunc(parts, func(part []*trace.Record) bool { return part[0].Resource() == w.Resource() })
		if i < 0 {
			i, parts = len(parts), append(parts, nil)
		}
		parts[i] = append(parts[i], w)
	}
	return parts
}

// deliver tells of what a cache hears late: after its part has acted without knowing it.
func (t *teller) deliver(r *trace.Record) {
	part := trace.Component(r.Actor)
	late := slices.DeleteFunc(t.hearsay.News(r), func(w *trace.Record) bool { return !slices.Contains(t.missed[part], w) })
	if len(late) > 0 {
		t.line(r, fmt.Sprintf("%s hears of %s only now", trace.Strand(r.Actor), stepsOf(late)))
	}
}

// stepsOf gives "step 4", "steps 4 and 7", "steps 4, 7 and 9".
func stepsOf(records []*trace.Record) string {
	words := make([]string, len(records))
	for i, r := range records {
		words[i] = fmt.Sprint(r.Turn)
	}
	if len(words) == 1 {
		return "step " + words[0]
	}
	last := len(words) - 1
	return "steps " + strings.Join(words[:last], ", ") + " and " + words[last]
}

// line tells of a record.
func (t *teller) line(r *trace.Record, words string) {
	if later := r.At - t.at; later > 0 {
		t.lines = append(t.lines, fmt.Sprintf("      … %s later:", later))
	}
	t.at = r.At
	number := r.Turn
	if number == t.turn && !strings.HasPrefix(words, ">>") {
		number = 0
	}
	t.turn = r.Turn
	t.lines = append(t.lines, numbered(number, words))
}

func numbered(step int, words string) string {
	if step == 0 {
		return "      " + words
	}
	return fmt.Sprintf("%4d  %s", step, words)
}

// linesMax is how many lines a story has at most, besides its end: of a longer one the middle is left out.
const linesMax = 150

// text is the whole story.
func (t *teller) text() string {
	return trace.Short(strings.Join(t.lines, "\n")) + "\n"
}

// end says what is broken, and how to see it again.
func (t *teller) end(s *Scenario, r *Result) {
	if len(t.lines) > linesMax {
		left := len(t.lines) - linesMax
		t.lines = slices.Concat(t.lines[:linesMax/2], []string{fmt.Sprintf("      … %d lines are left out …", left)}, t.lines[linesMax/2+left:])
	}
	if t.cycle < len(t.records) {
		last := t.records[t.until-1].Turn
		t.lines = append(t.lines, fmt.Sprintf("      … and steps %d to %d again and again, for ever", t.records[t.cycle].Turn, last))
	}
	t.lines = append(t.lines, verdict(r)...)
	if s.File != "" && s.Extra == nil && s.Between.Client == nil && s.Between.Driver == nil {
		t.lines = append(t.lines, "replay: volsim replay "+s.File)
	}
}

// verdict says which rule is broken, and how.
func verdict(r *Result) []string {
	var unfinished *Unfinished
	var livelock *Livelock
	var panicked *Panic
	rule := Rule(r.Failure)
	broken := "broken: " + rule + ": "
	switch failure := r.Failure; {
	case failure == nil && r.Stopped:
		return []string{"nothing was broken when the run was stopped"}
	case failure == nil:
		return []string{"nothing is broken: the world came to rest with " + r.End.String()}
	case errors.As(failure, &unfinished):
		lines := []string{broken + "nothing is left to happen, but"}
		for _, o := range unfinished.Owed {
			lines = append(lines, fmt.Sprintf("  %s %s (%s)", trace.Noun(o.Object), o.Why, o.Rule))
		}
		for _, w := range unfinished.Waiting {
			lines = append(lines, "  "+w)
		}
		return lines
	case errors.As(failure, &livelock) && livelock.Cycle != nil:
		return []string{broken + "the world moves for ever, and comes to nothing: livelock"}
	case errors.As(failure, &panicked):
		lines := []string{broken + failure.Error()}
		for _, f := range frames(panicked.Stack) {
			lines = append(lines, "  in "+f)
		}
		return lines
	default:
		return []string{broken + strings.TrimPrefix(failure.Error(), rule+": ")}
	}
}
