package picture

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/volsim/volsim/sim/trace"
)

// Timeline draws the phases of claims, volumes, pods and attachments, the volumes that nodes had
// attached, staged and published, and retries, each in a lane of its own. Time runs to the right
// and is stretched where much happens. The records must not change afterwards.
func Timeline(records []trace.Record, o Options) *Drawing {
	return &Drawing{newTimeline(newScene(records, o))}
}

// timeline is the picture. Its horizontal axis are instants, at each of which something changed.
type timeline struct {
	title    string
	groups   []trackGroup
	instants []instant
	events   []markedEvent
	verdict  []string
}

// A trackGroup is the tracks of one kind.
type trackGroup struct {
	title  string
	tracks []track
}

// A track is a lane.
type track struct {
	name   string
	under  string // text below the name
	phases []phase
	tries  []try
}

// A phase is a state from one instant to another.
type phase struct {
	words    string
	what     ink
	from, to int
}

// A try is one attempt of an action that was tried more than once.
type try struct {
	at     int
	failed bool
	words  string
}

// An instant is a record at which something changed.
type instant struct {
	number int
	at     time.Duration
	step   int
}

// A markedEvent is an event of the simulation or a violation.
type markedEvent struct {
	at    int
	words string
}

// phaseInks holds the inks of states.
var phaseInks = map[string]ink{
	"Bound": "firm", "Running": "firm", "Available": "calm", attached: "calm", staged: "half", published: "firm",
	"Released": "past", deleting: "past", ending: "past", detaching: "past", "Succeeded": "past",
	"Failed": "past", "Lost": "past",
}

// A heading is the title of the group of a kind.
type heading struct {
	kind  kind
	title string
}

// headings holds the titles of the groups, in order.
var headings = []heading{
	{claimKind, "Claims"},
	{volumeKind, "Volumes"},
	{podKind, "Pods"},
	{attachmentKind, "Attachments"},
	{mountKind, "On nodes"},
}

func newTimeline(s *scene) *timeline {
	p := &timeline{title: s.options.Title}
	if p.title == "" {
		p.title = "Timeline"
	}
	for _, v := range s.options.Verdict {
		p.verdict = append(p.verdict, trace.Abbreviate(v))
	}
	changes, retries := s.changes(), s.retries()
	p.collectInstants(s, changes, retries)
	last := len(p.instants)
	for _, h := range headings {
		g := trackGroup{title: h.title}
		for _, t := range things(changes, h.kind) {
			if track := p.lifeTrack(t, changes, last); len(track.phases) > 0 {
				g.tracks = append(g.tracks, track)
			}
		}
		p.add(g)
	}
	for _, k := range otherKinds(changes) {
		g := trackGroup{title: plural(string(k))}
		for _, t := range things(changes, k) {
			if track := p.lifeTrack(t, changes, last); len(track.phases) > 0 {
				g.tracks = append(g.tracks, track)
			}
		}
		p.add(g)
	}
	g := trackGroup{title: "Retries"}
	for _, r := range retries {
		g.tracks = append(g.tracks, p.retryTrack(r))
	}
	p.add(g)
	return p
}

func (p *timeline) add(g trackGroup) {
	if len(g.tracks) > 0 {
		p.groups = append(p.groups, g)
	}
}

// things returns the things of a kind, in order of appearance.
func things(changes []change, of kind) []thing {
	var all []thing
	for _, c := range changes {
		if c.thing.kind == of && !slices.Contains(all, c.thing) {
			all = append(all, c.thing)
		}
	}
	return all
}

// otherKinds returns the kinds without a heading, in order of appearance.
func otherKinds(changes []change) []kind {
	var all []kind
	for _, c := range changes {
		k := c.thing.kind
		known := slices.ContainsFunc(headings, func(h heading) bool { return h.kind == k })
		if !known && !slices.Contains(all, k) {
			all = append(all, k)
		}
	}
	return all
}

// plural returns the title of a group: "Widgets" for "widget".
func plural(name string) string {
	title := strings.ToUpper(name[:1]) + name[1:]
	if strings.HasSuffix(title, "s") {
		return title + "es"
	}
	return title + "s"
}

// collectInstants finds the instants and the marked events.
func (p *timeline) collectInstants(s *scene, changes []change, retries []retry) {
	matters := map[int]bool{}
	for _, c := range changes {
		matters[c.record.Step] = !c.before
	}
	for _, r := range retries {
		for _, try := range r.tries {
			matters[try.Step] = true
		}
	}
	for i := range s.records[s.began:] {
		r := &s.records[s.began+i]
		violated := s.options.ViolationStep > 0 && r.Step == s.options.ViolationStep
		injected := r.Kind == trace.KindEvent && r.Verb != "tick"
		if !matters[r.Step] && !violated && !injected {
			continue
		}
		p.instants = append(p.instants, instant{number(r), r.At, r.Step})
		switch {
		case violated:
			p.events = append(p.events, markedEvent{len(p.instants) - 1, "invariant violated here"})
		case injected:
			p.events = append(p.events,
				markedEvent{len(p.instants) - 1, trace.Abbreviate(trace.DescribeEvent(r.Verb, r.Object))})
		}
	}
}

// instant returns the index of a step. Earlier steps have the first index.
func (p *timeline) instant(step int) int {
	i, _ := slices.BinarySearchFunc(p.instants, step, func(a instant, step int) int { return a.step - step })
	return i
}

// lifeTrack returns the track of a thing.
func (p *timeline) lifeTrack(t thing, changes []change, last int) track {
	k := track{name: t.name}
	for _, c := range changes {
		if c.thing != t {
			continue
		}
		at := 0
		if !c.before {
			at = p.instant(c.record.Step)
		}
		k.end(at)
		if c.to == gone || c.to == absent {
			continue
		}
		what, known := phaseInks[c.to]
		if !known {
			what = "busy"
		}
		k.phases = append(k.phases, phase{c.to, what, at, -1})
	}
	k.end(last)
	k.phases = slices.DeleteFunc(k.phases, func(f phase) bool { return f.from == f.to })
	return k
}

// end ends the last phase of a track if it is open.
func (k *track) end(at int) {
	if last := len(k.phases) - 1; last >= 0 && k.phases[last].to < 0 {
		k.phases[last].to = at
	}
}

// A retry is an action that failed and was tried again.
type retry struct {
	who, what string
	tries     []*trace.Record
}

// retries returns the actions that failed at least once, in the order of their first attempt.
func (s *scene) retries() []retry {
	var all []retry
	for i := s.began; i < len(s.records); i++ {
		r := &s.records[i]
		if r.Read || r.Kind != trace.KindAPI && r.Kind != trace.KindDriver || !s.related.Matches(r) {
			continue
		}
		if _, told := s.describe(r); !told {
			continue
		}
		object := r.Object
		if r.Kind == trace.KindAPI {
			object = trace.ObjectName(object)
		} else if _, volume, within := strings.Cut(object, "/"); within {
			object = volume
		}
		who, what := s.lane(r.Task), trace.Abbreviate(r.Verb+" "+object)
		at := slices.IndexFunc(all, func(t retry) bool { return t.who == who && t.what == what })
		if at < 0 {
			at, all = len(all), append(all, retry{who: who, what: what})
		}
		all[at].tries = append(all[at].tries, r)
	}
	for i := range all {
		all[i].tries = keepRetried(all[i].tries)
	}
	return slices.DeleteFunc(all, func(t retry) bool { return len(t.tries) == 0 })
}

// keepRetried returns the attempts that failed, and the first one after each.
func keepRetried(tries []*trace.Record) []*trace.Record {
	var kept []*trace.Record
	for i, r := range tries {
		if r.Err != nil || i > 0 && tries[i-1].Err != nil {
			kept = append(kept, r)
		}
	}
	return kept
}

// retryTrack returns the track of a retried action: its attempts and the waits between them.
func (p *timeline) retryTrack(r retry) track {
	k := track{name: r.who, under: r.what}
	for i, now := range r.tries {
		at := p.instant(now.Step)
		k.tries = append(k.tries, try{at, now.Err != nil, describeTry(now)})
		if i > 0 && r.tries[i-1].Err != nil {
			words := ""
			if waits := now.At - r.tries[i-1].At; waits > 0 {
				words = fmt.Sprintf("waits %s", formatDuration(waits))
			}
			k.phases = append(k.phases, phase{words, "wait", p.instant(r.tries[i-1].Step), at})
		}
	}
	return k
}

func describeTry(r *trace.Record) string {
	words, tells := describe(*r)
	if !tells {
		words = trace.DescribeAny(*r)
	}
	if n := number(r); n > 0 {
		words = fmt.Sprintf("%d %s", n, words)
	}
	return trace.Abbreviate(words)
}

// formatDuration returns a duration without needless digits.
func formatDuration(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		d = d.Round(time.Second)
	case d >= time.Second:
		d = d.Round(10 * time.Millisecond)
	case d >= time.Millisecond:
		d = d.Round(time.Millisecond)
	}
	words := d.String()
	if d >= time.Minute {
		words = strings.TrimSuffix(words, "0s")
		if strings.HasSuffix(words, "h0m") {
			words = strings.TrimSuffix(words, "0m")
		}
	}
	return words
}
