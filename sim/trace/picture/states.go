package picture

import (
	"fmt"
	"slices"

	"github.com/volsim/volsim/sim/trace"
)

// States draws the state machines of claims, volumes, pods, attachments and mounts, and the transitions
// that were taken, numbered in order. The records must not change afterwards.
func States(records []trace.Record, o Options) *Drawing {
	return &Drawing{newStates(newScene(records, o))}
}

// states is the picture.
type states struct {
	title    string
	machines []machine
	omitted  []string // counts of things without a machine
	steps    []string // the changes in words
	verdict  []string
}

// A machine is the state machine of one thing, with the transitions taken.
type machine struct {
	title   string
	states  []string
	edges   []edge
	visited map[string]bool
	current string // state at the end
}

// An edge leads from one state to another.
type edge struct {
	from, to int
	taken    []int // the numbers of the changes
}

// A machineTemplate is the state machine of the things of a kind.
type machineTemplate struct {
	kind   kind
	title  string
	states []string
	edges  [][2]string
}

// machineTemplates holds the state machines that are drawn, in order.
var machineTemplates = []machineTemplate{
	{
		claimKind, "Claim",
		[]string{absent, "Pending", "Bound", "Lost", deleting, gone},
		[][2]string{
			{absent, "Pending"},
			{"Pending", "Bound"},
			{"Bound", "Lost"},
			{"Pending", deleting},
			{"Bound", deleting},
			{"Lost", deleting},
			{deleting, gone},
		},
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
		podKind, "Pod",
		[]string{absent, "Pending", starting, "Running", "Succeeded", "Failed", ending, gone},
		[][2]string{
			{absent, "Pending"},
			{"Pending", starting},
			{starting, "Running"},
			{"Running", "Succeeded"},
			{"Running", "Failed"},
			{starting, ending},
			{"Running", ending},
			{"Succeeded", ending},
			{"Failed", ending},
			{ending, gone},
		},
	},
	{
		attachmentKind, "Attachment",
		[]string{absent, attaching, attached, detaching, gone},
		[][2]string{
			{absent, attaching},
			{attaching, attached},
			{attaching, detaching},
			{attached, detaching},
			{detaching, gone},
		},
	},
	{
		mountKind, "On the node: volume",
		[]string{absent, attached, staged, published},
		[][2]string{
			{absent, attached},
			{attached, staged},
			{staged, published},
			{published, staged},
			{staged, attached},
			{attached, absent},
		},
	},
}

// machinesMax is the maximum number of machines per kind.
const machinesMax = 3

func newStates(s *scene) *states {
	p := &states{title: s.options.Title}
	if p.title == "" {
		p.title = "State transitions"
	}
	for _, v := range s.options.Verdict {
		p.verdict = append(p.verdict, trace.Abbreviate(v))
	}
	changes := s.changes()
	shown := map[thing]*machine{}
	for _, plan := range machineTemplates {
		all := things(changes, plan.kind)
		for _, t := range all[:min(len(all), machinesMax)] {
			p.machines = append(p.machines, plan.newMachine(t))
		}
		if more := len(all) - machinesMax; more > 0 {
			p.omitted = append(p.omitted, fmt.Sprintf("%d more: %s", more, plan.title))
		}
	}
	i := 0
	for _, plan := range machineTemplates {
		all := things(changes, plan.kind)
		for _, t := range all[:min(len(all), machinesMax)] {
			shown[t] = &p.machines[i]
			i++
		}
	}
	for _, c := range changes {
		if m := shown[c.thing]; m != nil {
			p.addChange(m, c)
		}
	}
	return p
}

// newMachine returns the initial machine of a thing.
func (l machineTemplate) newMachine(t thing) machine {
	m := machine{title: l.title + " " + t.name, states: slices.Clone(l.states), visited: map[string]bool{}}
	for _, e := range l.edges {
		m.edges = append(m.edges, edge{from: slices.Index(m.states, e[0]), to: slices.Index(m.states, e[1])})
	}
	return m
}

// addChange adds a change to its machine.
func (p *states) addChange(m *machine, c change) {
	m.visited[c.to], m.current = true, c.to
	if c.before {
		return
	}
	m.visited[c.from] = true
	from, to := m.state(c.from), m.state(c.to)
	at := slices.IndexFunc(m.edges, func(e edge) bool { return e.from == from && e.to == to })
	if at < 0 {
		at, m.edges = len(m.edges), append(m.edges, edge{from: from, to: to})
	}
	words, _ := describe(*c.record)
	who := trace.Process(c.record.Task) + " "
	if c.record.Kind == trace.KindEvent {
		who, words = "", trace.DescribeEvent(c.record.Verb, c.record.Object)
	}
	if words == "" {
		words = trace.DescribeAny(*c.record)
	}
	if n := number(c.record); n > 0 {
		words += fmt.Sprintf(" (step %d)", n)
	}
	p.steps = append(p.steps, trace.Abbreviate(who+words))
	m.edges[at].taken = append(m.edges[at].taken, len(p.steps))
}

// state returns the index of a state. A state that the template does not have is appended.
func (m *machine) state(name string) int {
	if at := slices.Index(m.states, name); at >= 0 {
		return at
	}
	m.states = append(m.states, name)
	return len(m.states) - 1
}
