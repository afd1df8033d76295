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
	began := slices.IndexFunc(all, func(one trace.Record) bool { return one.Step > r.SetupEnd })
	if began < 0 {
		began = len(all)
	}
	t := &storyWriter{
		related: relatedObjects(all, r.Failure), knowledge: trace.NewCacheKnowledge(), missed: map[string][]*trace.Record{},
		records: all[began:], deviations: slices.Clone(s.Schedule), involved: map[string]bool{}, byTask: map[string]bool{},
	}
	for i := range all[:began] {
		t.knowledge.Observe(&all[i], t.related.Matches(&all[i]))
		t.at = all[i].At
	}
	trace.NumberHostSteps(t.records)
	t.findInvolved(r.Failure)
	t.writeRecords()
	t.writeEnd(s, r)
	return t.text()
}

// storyWriter tells the story of one run.
type storyWriter struct {
	related       *trace.RelatedObjects
	knowledge     *trace.CacheKnowledge
	missed        map[string][]*trace.Record // by part: the writes that it was said not to have heard of
	records       []trace.Record             // after the set-up
	deviations    sim.Schedule               // yet to come
	violationStep int                        // the step of the trace at which the rule was broken; 0: at none
	cycle         int                        // the index of the first record of what comes again and again; that of the end if nothing does
	end           int                        // the index of the record before which the story ends
	involved      map[string]bool
	byTask        map[string]bool // parts of which it matters which strand does something
	at            time.Duration
	lines         []string
	lastStep      int // of the last line
}

// findInvolved finds whom the failure is about.
func (t *storyWriter) findInvolved(failure error) {
	t.cycle, t.end = len(t.records), len(t.records)
	var violation *invariant.Violation
	var livelock *Livelock
	switch {
	case errors.As(failure, &violation):
		t.violationStep = violation.Step
		for i := range t.records {
			if t.records[i].Step == t.violationStep {
				t.involved[trace.Process(t.records[i].Task)] = true
			}
		}
	case errors.As(failure, &livelock) && livelock.Cycle != nil:
		t.cycle = firstRound(t.records, len(livelock.Cycle))
		t.end = min(t.cycle+len(livelock.Cycle), len(t.records))
	}
	for _, d := range t.deviations {
		if d.What == sim.DeviationEvent {
			_, of, _ := strings.Cut(d.Subject, " ")
			part, _, _ := strings.Cut(of, " ")
			t.involved[part] = true
			continue
		}
		part := trace.Process(d.Subject)
		t.involved[part] = true
		if !strings.Contains(d.Subject, "/cache ") {
			t.byTask[part] = true
		}
	}
}

// firstRound is where rounds of so many records, the last of which ends with the log, begin to be the same.
func firstRound(records []trace.Record, round int) int {
	same := func(a, b *trace.Record) bool {
		return a.Task == b.Task && a.Action == b.Action && (a.Err == nil) == (b.Err == nil)
	}
	at := max(0, len(records)-round)
	for at > 0 && same(&records[at-1], &records[at-1+round]) {
		at--
	}
	return at
}

// writeRecords tells of all records.
func (t *storyWriter) writeRecords() {
	for i := range t.records[:t.end] {
		r := &t.records[i]
		t.addDeviations(r.HostStep, t.records[i:])
		concerns := t.related.Matches(r)
		switch {
		case r.Kind == trace.KindEvent:
			t.addLine(r, ">> "+trace.DescribeEvent(r.Verb, r.Object))
			delete(t.missed, trace.CrashedComponent(r))
		case r.Kind == trace.KindDeliver:
			t.addDelivery(r)
		case t.isIncluded(i, concerns):
			t.addLine(r, t.subject(r.Task)+" "+trace.DescribeAny(*r)+versionSuffix(r))
			t.addStaleness(r)
		}
		t.knowledge.Observe(r, concerns)
	}
	if t.end == len(t.records) {
		t.addDeviations(math.MaxInt, nil)
	}
}

// addDeviations tells of the deviations up to a step. Events are told of when they happen.
func (t *storyWriter) addDeviations(turn int, later []trace.Record) {
	for len(t.deviations) > 0 && t.deviations[0].Step <= turn {
		d := t.deviations[0]
		t.deviations = t.deviations[1:]
		if d.What == sim.DeviationEvent {
			continue
		}
		t.lines = append(t.lines, numbered(d.Step, ">> "+describeDeviation(d, later)))
	}
}

// isIncluded decides whether a record is told of.
func (t *storyWriter) isIncluded(i int, concerns bool) bool {
	r := &t.records[i]
	_, told := trace.Describe(*r)
	part := trace.Process(r.Task)
	switch {
	case r.Kind != trace.KindAPI && r.Kind != trace.KindDriver:
		return false
	case r.Step == t.violationStep:
		return true
	case r.Kind == trace.KindDriver:
		return concerns && told
	case i >= t.cycle:
		return concerns
	case r.Verb == "list":
		return t.involved[part] && failureResources[r.Resource()]
	case r.After == nil && r.Err == nil, r.Err != nil && !told: // a read; something that was not there any more
		return concerns && t.involved[part]
	default:
		return concerns && (told || len(trace.Changes(r.Before, r.After)) > 0)
	}
}

// subject names who acts, with the strand where that matters.
func (t *storyWriter) subject(actor string) string {
	if part := trace.Process(actor); !t.byTask[part] {
		return part
	}
	return trace.DescribeTask(actor)
}

// versionSuffix gives the version of what was read or written.
func versionSuffix(r *trace.Record) string {
	if v := r.Version(); v > 0 && r.Kind == trace.KindAPI {
		return fmt.Sprintf(" (rv %d)", v)
	}
	return ""
}

// addStaleness tells what who acts did not know when it decided what to do: what happened to the object since, and what its
// caches had not heard of, unless that has been told.
func (t *storyWriter) addStaleness(r *trace.Record) {
	part := trace.Process(r.Task)
	basis, has := t.knowledge.DecisionContext(r.Task)
	if !has {
		return
	}
	var words []string
	reads := r.After == nil && r.Err == nil
	if since := t.knowledge.WritesSince(r, basis); len(since) > 0 && !reads {
		words = append(words, fmt.Sprintf("it decided so in step %d, before %s", basis.Previous.HostStep, stepsOf(since)))
	}
	if !slices.Equal(basis.Unseen, t.missed[part]) {
		for _, unheard := range byResource(basis.Unseen) {
			words = append(words, fmt.Sprintf("its %s cache had not heard of %s", trace.ObjectName(unheard[0].Resource()), stepsOf(unheard)))
		}
	}
	if len(words) > 0 {
		t.lines = append(t.lines, "      ("+strings.Join(words, "; ")+")")
	}
	t.missed[part] = basis.Unseen
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

// addDelivery tells of what a cache hears late: after its part has acted without knowing it.
func (t *storyWriter) addDelivery(r *trace.Record) {
	part := trace.Process(r.Task)
	late := slices.DeleteFunc(t.knowledge.NewlySeen(r), func(w *trace.Record) bool { return !slices.Contains(t.missed[part], w) })
	if len(late) > 0 {
		t.addLine(r, fmt.Sprintf("%s hears of %s only now", trace.DescribeTask(r.Task), stepsOf(late)))
	}
}

// stepsOf gives "step 4", "steps 4 and 7", "steps 4, 7 and 9".
func stepsOf(records []*trace.Record) string {
	words := make([]string, len(records))
	for i, r := range records {
		words[i] = fmt.Sprint(r.HostStep)
	}
	if len(words) == 1 {
		return "step " + words[0]
	}
	last := len(words) - 1
	return "steps " + strings.Join(words[:last], ", ") + " and " + words[last]
}

// addLine tells of a record.
func (t *storyWriter) addLine(r *trace.Record, words string) {
	if later := r.At - t.at; later > 0 {
		t.lines = append(t.lines, fmt.Sprintf("      … %s later:", later))
	}
	t.at = r.At
	number := r.HostStep
	if number == t.lastStep && !strings.HasPrefix(words, ">>") {
		number = 0
	}
	t.lastStep = r.HostStep
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
func (t *storyWriter) text() string {
	return trace.Abbreviate(strings.Join(t.lines, "\n")) + "\n"
}

// writeEnd says what is broken, and how to see it again.
func (t *storyWriter) writeEnd(s *Scenario, r *Result) {
	if len(t.lines) > linesMax {
		left := len(t.lines) - linesMax
		t.lines = slices.Concat(t.lines[:linesMax/2], []string{fmt.Sprintf("      … %d lines are left out …", left)}, t.lines[linesMax/2+left:])
	}
	if t.cycle < len(t.records) {
		last := t.records[t.end-1].HostStep
		t.lines = append(t.lines, fmt.Sprintf("      … and steps %d to %d again and again, for ever", t.records[t.cycle].HostStep, last))
	}
	t.lines = append(t.lines, describeResult(r)...)
	if s.File != "" && s.Extra == nil && s.Interceptors.Client == nil && s.Interceptors.Driver == nil {
		t.lines = append(t.lines, "replay: volsim replay "+s.File)
	}
}

// describeResult says which rule is broken, and how.
func describeResult(r *Result) []string {
	var unfinished *Incomplete
	var livelock *Livelock
	var panicked *Panic
	rule := RuleID(r.Failure)
	broken := "broken: " + rule + ": "
	switch failure := r.Failure; {
	case failure == nil && r.Stopped:
		return []string{"nothing was broken when the run was stopped"}
	case failure == nil:
		return []string{"nothing is broken: the world came to rest with " + r.Outcome.String()}
	case errors.As(failure, &unfinished):
		lines := []string{broken + "nothing is left to happen, but"}
		for _, o := range unfinished.Pending {
			lines = append(lines, fmt.Sprintf("  %s %s (%s)", trace.ObjectName(o.Object), o.Why, o.Rule))
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
