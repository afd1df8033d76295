package scenario

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/volsim/volsim/internal/causality"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// Story explains a run under the scenario's schedule as a list of steps: writes, reads, refused
// requests and stale reads that concern the objects of the failure. It omits the set-up. Steps have
// the numbers of the schedule, whose deviations are marked with ">>". The end names the violated
// rule and, for a scenario with a File, the command that replays it. "rv" is a resourceVersion.
// Names made of random numbers are cut after eight characters.
func Story(s *Scenario, r *Result) string {
	all := r.Trace.Records()
	began := slices.IndexFunc(all, func(one trace.Record) bool { return one.Step > r.SetupEnd })
	if began < 0 {
		began = len(all)
	}
	t := &storyWriter{
		scenario: s, began: began,
		related: relatedObjects(s, all, r.Failure), knowledge: causality.NewCacheKnowledge(), missed: map[string][]*trace.Record{},
		records: all[began:], deviations: slices.Clone(s.Schedule),
		involved: map[string]bool{}, byTask: map[string]bool{},
	}
	trace.NumberHostSteps(t.records)
	t.findReads(all, r)
	for i := range all[:began] {
		t.knowledge.Observe(&all[i], t.related.Matches(&all[i]))
		t.at = all[i].At
	}
	t.findInvolved(r.Failure)
	t.writeRecords()
	t.writeEnd(s, r)
	return t.text()
}

// A storyWriter writes the story of one run.
type storyWriter struct {
	scenario      *Scenario
	began         int              // number of records of the set-up
	reads         *causality.Reads // of the test's own components and scripts
	related       *causality.RelatedObjects
	knowledge     *causality.CacheKnowledge
	missed        map[string][]*trace.Record // by process: the unseen writes that the story has mentioned
	records       []trace.Record             // after the set-up
	deviations    sim.Schedule               // yet to come
	violationStep int                        // the step of the trace at which the rule was violated; 0: none
	cycle         int                        // index of the first record of a cycle; the number of records if there is none
	end           int                        // index of the record before which the story ends
	involved      map[string]bool
	byTask        map[string]bool // processes whose tasks the story names
	at            time.Duration
	lines         []string
	lastStep      int // of the last line
}

// findInvolved finds the processes that the failure concerns.
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
			process, _, _ := strings.Cut(of, " ")
			t.involved[process] = true
			continue
		}
		process := trace.Process(d.Subject)
		t.involved[process] = true
		if !strings.Contains(d.Subject, "/cache ") {
			t.byTask[process] = true
		}
	}
}

// firstRound returns the index at which the records begin to repeat with a period of round; the
// last round ends with the log.
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

// writeRecords adds the lines of all records.
func (t *storyWriter) writeRecords() {
	for i := range t.records[:t.end] {
		r := &t.records[i]
		t.addDeviations(r.HostStep, t.records[i:])
		concerns := t.related.Matches(r) || t.scenario.writesOwn(r) && (r.After != nil || r.Err != nil && !isRead(r))
		switch {
		case r.Kind == trace.KindEvent:
			t.addLine(r, ">> "+trace.DescribeEvent(r.Verb, r.Object))
			delete(t.missed, causality.CrashedComponent(r))
		case r.Kind == trace.KindDeliver:
			t.addDelivery(r)
		case t.isIncluded(i, concerns):
			t.addLine(r, t.subject(r.Task)+" "+t.describe(r)+versionSuffix(r))
			t.addStaleness(r)
			t.addBase(i)
		}
		t.knowledge.Observe(r, concerns)
		t.addReads(i)
	}
	if t.end == len(t.records) {
		t.addDeviations(math.MaxInt, nil)
	}
}

// describe describes a record. Whether a component of the test's own retries is for it to show.
func (t *storyWriter) describe(r *trace.Record) string {
	words := trace.DescribeAny(*r)
	if r.Err != nil && t.scenario.isOwn(trace.Process(r.Task)) {
		words = strings.TrimSuffix(words, " and will retry")
	}
	return words
}

// addDeviations adds the deviations up to a step. Events are added when they happen.
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

// isIncluded reports whether the story includes a record.
func (t *storyWriter) isIncluded(i int, concerns bool) bool {
	r := &t.records[i]
	_, told := trace.Describe(*r)
	process := trace.Process(r.Task)
	switch {
	case r.Kind != trace.KindAPI && r.Kind != trace.KindDriver:
		return false
	case r.Step == t.violationStep, t.reads.Live[t.began+i]:
		return true
	case r.After == nil && r.Err == nil && !isRead(r) && t.scenario.isOwn(process): // it changed nothing
		return false
	case r.Kind == trace.KindDriver:
		return concerns && told
	case i >= t.cycle:
		return concerns
	case r.Verb == "list":
		return t.involved[process] && failureResources[r.Resource()]
	case r.After == nil && r.Err == nil, r.Err != nil && !told: // a read, or a write to a missing object
		return concerns && (t.involved[process] || t.scenario.isOwn(process) && !isRead(r))
	default:
		return concerns && (told || t.scenario.writesOwn(r) || len(trace.Changes(r.Before, r.After)) > 0)
	}
}

// subject returns the acting process, or its task where that matters.
func (t *storyWriter) subject(task string) string {
	if process := trace.Process(task); !t.byTask[process] {
		return process
	}
	return trace.DescribeTask(task)
}

// versionSuffix returns the version that was read or written.
func versionSuffix(r *trace.Record) string {
	if v := r.Version(); v > 0 && r.Kind == trace.KindAPI {
		return fmt.Sprintf(" (rv %d)", v)
	}
	return ""
}

// addStaleness adds what the process had not seen when it decided: later writes to the object, and
// writes missing in its caches that the story has not mentioned yet.
func (t *storyWriter) addStaleness(r *trace.Record) {
	process := trace.Process(r.Task)
	decided, has := t.knowledge.DecisionContext(r.Task)
	if !has || t.reads.Caches[process] { // addReads and addBase say it better
		return
	}
	var words []string
	reads := r.After == nil && r.Err == nil
	if since := t.knowledge.WritesSince(r, decided); len(since) > 0 && !reads {
		words = append(words, fmt.Sprintf("it decided in step %d, before %s", decided.Previous.HostStep,
			causality.StepsSince(decided.Previous.HostStep, hostSteps(since))))
	}
	if !slices.Equal(decided.Unseen, t.missed[process]) {
		for _, unseen := range byResource(decided.Unseen) {
			words = append(words,
				fmt.Sprintf("its %s cache has not seen %s", trace.ObjectName(unseen[0].Resource()), stepsOf(unseen)))
		}
	}
	if len(words) > 0 {
		t.lines = append(t.lines, "      ("+strings.Join(words, "; ")+")")
	}
	t.missed[process] = decided.Unseen
}

// byResource groups writes by resource, in the order of the first of each.
func byResource(writes []*trace.Record) [][]*trace.Record {
	var groups [][]*trace.Record
	for _, w := range writes {
		i := slices.IndexFunc(groups,
			func(process []*trace.Record) bool { return process[0].Resource() == w.Resource() })
		if i < 0 {
			i, groups = len(groups), append(groups, nil)
		}
		groups[i] = append(groups[i], w)
	}
	return groups
}

// addDelivery adds a delivery that comes late: after the process has acted without it.
func (t *storyWriter) addDelivery(r *trace.Record) {
	process := trace.Process(r.Task)
	late := slices.DeleteFunc(t.knowledge.NewlySeen(r),
		func(w *trace.Record) bool { return !slices.Contains(t.missed[process], w) })
	if len(late) > 0 {
		t.addLine(r, fmt.Sprintf("%s sees %s only now", trace.DescribeTask(r.Task), stepsOf(late)))
	}
}

// stepsOf returns "step 4", "steps 4 and 7", "steps 4, 7 and 9".
func stepsOf(records []*trace.Record) string { return causality.Steps(hostSteps(records)) }

func hostSteps(records []*trace.Record) []int {
	steps := make([]int, len(records))
	for i, r := range records {
		steps[i] = r.HostStep
	}
	return steps
}

// addLine adds the line of a record.
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

// linesMax is the maximum number of lines of a story, besides its end. The middle of a longer story
// is omitted.
const linesMax = 150

// text returns the whole story.
func (t *storyWriter) text() string {
	return trace.Abbreviate(strings.Join(t.lines, "\n")) + "\n"
}

// writeEnd adds the violation and the replay command.
func (t *storyWriter) writeEnd(s *Scenario, r *Result) {
	if len(t.lines) > linesMax {
		left := len(t.lines) - linesMax
		t.lines = slices.Concat(t.lines[:linesMax/2],
			[]string{fmt.Sprintf("      … %d lines omitted …", left)}, t.lines[linesMax/2+left:])
	}
	if t.cycle < len(t.records) {
		last := t.records[t.end-1].HostStep
		t.lines = append(t.lines,
			fmt.Sprintf("      … and steps %d to %d repeat indefinitely", t.records[t.cycle].HostStep, last))
	}
	t.lines = append(t.lines, describeResult(r)...)
	if s.File != "" && !s.OnlyInGo() {
		t.lines = append(t.lines, "replay: volsim replay "+s.File)
	}
}

// describeResult returns the violated rule and the details.
func describeResult(r *Result) []string {
	var unfinished *Incomplete
	var livelock *Livelock
	var panicked *Panic
	rule := RuleID(r.Failure)
	violated := "violation: " + rule + ": "
	switch failure := r.Failure; {
	case failure == nil && r.Stopped:
		return []string{"no invariant violated before the run was stopped"}
	case failure == nil:
		return []string{"no invariant violated; final state: " + r.Outcome.String()}
	case errors.As(failure, &unfinished):
		lines := []string{violated + "at rest, but pending:"}
		for _, o := range unfinished.Pending {
			lines = append(lines, fmt.Sprintf("  %s %s (%s)", trace.ObjectName(o.Object), o.Why, o.Rule))
		}
		for _, w := range unfinished.Waiting {
			lines = append(lines, "  "+w)
		}
		return lines
	case errors.As(failure, &livelock) && livelock.Cycle != nil:
		return []string{violated + "livelock: the world never comes to rest"}
	case errors.As(failure, &panicked):
		lines := []string{violated + failure.Error()}
		for _, f := range frames(panicked.Stack) {
			lines = append(lines, "  in "+f)
		}
		return lines
	default:
		return []string{violated + strings.TrimPrefix(failure.Error(), rule+": ")}
	}
}
