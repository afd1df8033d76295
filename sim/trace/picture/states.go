package picture

import (
	"fmt"
	"slices"

	"github.com/volsim/volsim/sim/trace"
)

// States draws the states that claims, volumes, attachments and the mounts of volumes on nodes can be in, and which way they
// went through them: the changes are numbered in their order. The records are read-only from then on.
func States(records []trace.Record, o Options) *Drawing {
	return &Drawing{newStates(newScene(records, o))}
}

// states is the picture.
type states struct {
	title    string
	machines []machine
	left     []string // what there was no room for
	steps    []string // the changes in words
	verdict  []string
}

// machine is the life of one thing: what could be, and what was.
type machine struct {
	title  string
	states []string
	edges  []edge
	visits map[string]bool
	now    string // at the end
}

// edge leads from one state to another.
type edge struct {
	from, to int
	taken    []int // the numbers of the changes
}

// plan is what the life of things of a kind can be.
type plan struct {
	kind   kind
	title  string
	states []string
	edges  [][2]string
}

// plans are the lives that are drawn, in their order.
var plans = []plan{
	{
		claimKind, "Claim",
		[]string{absent, "Pending", "Bound", "Lost", deleting, gone},
		[][2]string{{absent, "Pending"}, {"Pending", "Bound"}, {"Bound", "Lost"}, {"Pending", deleting}, {"Bound", deleting}, {"Lost", deleting}, {deleting, gone}},
	},
	{
		volumeKind, "Volume",
		[]string{absent, "Pending", "Available", "Bound", "Released", "Failed", deleting, gone},
		[][2]string{
			{absent, "Pending"},
			{"Pending", "Available"},
			{"Pending", "Bound"},
			{"Available", "Bound"},
			{"Bound", "Released"},
			{"Released", "Available"},
			{"Released", "Failed"},
			{"Released", deleting},
			{"Failed", deleting},
			{deleting, gone},
		},
	},
	{
		attachmentKind, "Attachment",
		[]string{absent, attaching, attached, detaching, gone},
		[][2]string{{absent, attaching}, {attaching, attached}, {attaching, detaching}, {attached, detaching}, {detaching, gone}},
	},
	{
		mountKind, "At the node: volume",
		[]string{absent, attached, staged, published},
		[][2]string{{absent, attached}, {attached, staged}, {staged, published}, {published, staged}, {staged, attached}, {attached, absent}},
	},
}

// machinesMax is how many things of a kind are drawn at most.
const machinesMax = 3

func newStates(s *scene) *states {
	p := &states{title: s.options.Title}
	if p.title == "" {
		p.title = "Which states were gone through"
	}
	for _, v := range s.options.Verdict {
		p.verdict = append(p.verdict, trace.Short(v))
	}
	changes := s.changes()
	shown := map[thing]*machine{}
	for _, plan := range plans {
		all := things(changes, plan.kind)
		for _, t := range all[:min(len(all), machinesMax)] {
			p.machines = append(p.machines, plan.machine(t))
		}
		if more := len(all) - machinesMax; more > 0 {
			p.left = append(p.left, fmt.Sprintf("%d more: %s", more, plan.title))
		}
	}
	i := 0
	for _, plan := range plans {
		all := things(changes, plan.kind)
		for _, t := range all[:min(len(all), machinesMax)] {
			shown[t] = &p.machines[i]
			i++
		}
	}
	for _, c := range changes {
		if m := shown[c.thing]; m != nil {
			p.take(m, c)
		}
	}
	return p
}

// machine is the life of a thing, before it has begun.
func (l plan) machine(t thing) machine {
	m := machine{title: l.title + " " + t.name, states: slices.Clone(l.states), visits: map[string]bool{}}
	for _, e := range l.edges {
		m.edges = append(m.edges, edge{from: slices.Index(m.states, e[0]), to: slices.Index(m.states, e[1])})
	}
	return m
}

// take lets a thing go on.
func (p *states) take(m *machine, c change) {
	m.visits[c.to], m.now = true, c.to
	if c.before {
		return
	}
	m.visits[c.from] = true
	from, to := m.state(c.from), m.state(c.to)
	at := slices.IndexFunc(m.edges, func(e edge) bool { return e.from == from && e.to == to })
	if at < 0 {
		at, m.edges = len(m.edges), append(m.edges, edge{from: from, to: to})
	}
	words, _ := tell(*c.record)
	who := trace.Component(c.record.Actor) + " "
	if c.record.Kind == trace.KindEvent {
		who, words = "", trace.TellEvent(c.record.Verb, c.record.Object)
	}
	if words == "" {
		words = trace.TellAll(*c.record)
	}
	if n := number(c.record); n > 0 {
		words += fmt.Sprintf(" (step %d)", n)
	}
	p.steps = append(p.steps, trace.Short(who+words))
	m.edges[at].taken = append(m.edges[at].taken, len(p.steps))
}

// state is the place of a state; one that the plan does not have comes at the end.
func (m *machine) state(name string) int {
	if at := slices.Index(m.states, name); at >= 0 {
		return at
	}
	m.states = append(m.states, name)
	return len(m.states) - 1
}
