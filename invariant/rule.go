package invariant

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim/trace"
)

// World is what rules look at.
type World struct {
	API     *fake.Server
	Log     *trace.Log
	Now     func() time.Time
	Devices Devices // nil: there are none, and rules about them are never broken
}

// Devices is the truth beneath the API: what back ends and the disks of the nodes say.
type Devices interface {
	// Backend is the CSI driver's.
	Backend
	// Plugins are those of the PersistentVolume controller that make and delete volumes, by name.
	Plugins() []Backend
	// Nodes are the nodes that have a disk, sorted.
	Nodes() []string
	// Mounts is the mount table of a node, sorted by path. The Source of a mount of a volume is the volume's handle.
	Mounts(node string) []nodefs.Mount
}

// Rule is one thing that must not be.
type Rule struct {
	ID      string // "I1", "L2"
	Forbids string // what it forbids, as in "two volumes bound to one claim"
	// begin sets the rule over a world.
	begin func(c *Checker) watcher
}

// String gives "I1: two volumes bound to one claim".
func (r Rule) String() string { return r.ID + ": " + r.Forbids }

// watcher is a rule at work in one world. What is nil is not asked.
type watcher struct {
	ofNodes func(c *Checker) watcher                   // see ofNodes
	commits []string                                   // the resources whose commits it wants to be told of
	commit  func(e fake.Commit)                        // after the commit
	writes  []string                                   // the resources whose writes it wants to be told of
	write   func(r trace.Record)                       // after a request that writes, also a failed one; see Effective
	call    func(r trace.Record)                       // after a driver call, also a failed one; see Effective
	deliver func(r trace.Record)                       // after a delivery to a cache
	event   func(r trace.Record)                       // after something befell the world: trace.KindEvent
	work    func(r trace.Record)                       // after a worker has taken up a key
	request func(r trace.Record)                       // after a request to the API server, also a failed one
	rest    func(report func(object, why string))      // nothing is left to happen: what is owed?
	settled func(report func(format string, a ...any)) // nothing is left to happen: is it as it must be?
}

// Effective tells whether a driver call or a request took effect: it succeeded, or its answer was lost.
func Effective(r trace.Record) bool { return r.Err == nil || r.Lost }

// Violation is a rule that was broken.
type Violation struct {
	Rule Rule
	Step int // the step of the trace after which it was seen
	What string
}

// Error says it in a sentence: "I1: two volumes bound to one claim: …".
func (v *Violation) Error() string { return v.Rule.String() + ": " + v.What }

// Owed is something that has yet to come when nothing is left to happen.
type Owed struct {
	Rule   Rule
	Object string // "persistentvolumeclaims/default/data"
	Why    string
}

// String gives "object why (L1)".
func (o Owed) String() string { return fmt.Sprintf("%s %s (%s)", o.Object, o.Why, o.Rule.ID) }

// ofNodes has a rule begin only where there are pods, nodes or attachments, or a driver is called: it is about these, so that
// without them nothing breaks it, and it has nothing to remember.
func ofNodes(begin func(c *Checker) watcher) func(c *Checker) watcher {
	return func(*Checker) watcher { return watcher{ofNodes: begin} }
}

// Checker is a set of rules at work in one world.
type Checker struct {
	World
	violations  []*Violation
	controllers controllers                           // who has listed something
	rules       []told                                // all of them
	nodes       bool                                  // the rules about nodes have begun
	commits     map[string][]*told                    // by resource: who is told
	writes      map[string][]*told                    // by resource
	actions     map[trace.Kind][]func(r trace.Record) // who is told of an action
	rests       []*told
	resyncing   bool // see Resync
}

// told is a rule to be told.
type told struct {
	Rule
	watcher
}

// Watch sets rules over a world, before anything happens in it that they are to see.
func Watch(w World, rules ...Rule) *Checker {
	c := &Checker{World: w, controllers: controllers{}, rules: make([]told, len(rules))}
	for i, r := range rules {
		c.rules[i] = told{r, r.begin(c)}
	}
	c.index()
	for _, resource := range nodeResources {
		if len(w.API.List(resource)) > 0 {
			c.meetNodes()
			break
		}
	}
	w.API.OnCommit(func(e fake.Commit) {
		if !c.nodes && slices.Contains(nodeResources, e.Resource) {
			c.meetNodes()
		}
		for _, t := range c.commits[e.Resource] {
			t.commit(e)
		}
	})
	w.Log.Watch(c.record)
	return c
}

// record takes in a record of the trace.
func (c *Checker) record(r trace.Record) {
	if !c.nodes && isOfNodes(r) {
		c.meetNodes()
	}
	switch r.Kind {
	case trace.KindAPI:
		c.written(r)
	case trace.KindDeliver:
		c.controllers.see(r)
	}
	for _, f := range c.actions[r.Kind] {
		f(r)
	}
}

// nodeResources are those that rules about nodes are about.
var nodeResources = []string{"pods", "nodes", "csinodes", "volumeattachments"}

// isOfNodes tells whether a record is the first of those that rules about nodes are about.
func isOfNodes(r trace.Record) bool {
	switch r.Kind {
	case trace.KindDriver:
		return true
	case trace.KindEvent:
		return r.Verb != "tick"
	case trace.KindAPI:
		resource, _, _ := strings.Cut(r.Object, "/")
		return slices.Contains(nodeResources, resource)
	}
	return false
}

// meetNodes begins the rules about nodes.
func (c *Checker) meetNodes() {
	c.nodes = true
	for i := range c.rules {
		if t := &c.rules[i]; t.ofNodes != nil {
			t.watcher = t.ofNodes(c)
		}
	}
	c.index()
}

// index finds out who is to be told of what.
func (c *Checker) index() {
	c.commits, c.writes, c.actions = map[string][]*told{}, map[string][]*told{}, map[trace.Kind][]func(r trace.Record){}
	c.rests = make([]*told, 0, many)
	for i := range c.rules {
		t := &c.rules[i]
		for _, resource := range t.watcher.writes {
			c.writes[resource] = append(room(c.writes[resource]), t)
		}
		for _, resource := range t.watcher.commits {
			c.commits[resource] = append(room(c.commits[resource]), t)
		}
		c.tell(trace.KindDriver, t.call)
		c.tell(trace.KindDeliver, t.deliver)
		c.tell(trace.KindEvent, t.event)
		c.tell(trace.KindWork, t.work)
		c.tell(trace.KindAPI, t.request)
		if t.rest != nil || t.settled != nil {
			c.rests = append(c.rests, t)
		}
	}
}

// many is how many rules are told of one thing, at most, mostly.
const many = 16

// room gives an empty list room for many.
func room[T any](list []T) []T {
	if list == nil {
		return make([]T, 0, many)
	}
	return list
}

// tell has a rule told of each action of a kind, if it wants to be.
func (c *Checker) tell(kind trace.Kind, f func(r trace.Record)) {
	if f != nil {
		c.actions[kind] = append(room(c.actions[kind]), f)
	}
}

// written tells of a request, if it writes.
func (c *Checker) written(r trace.Record) {
	switch r.Verb[0] {
	case 'c', 'u', 'p', 'd': // create, update, patch, delete, and their subresources
		resource, _, _ := strings.Cut(r.Object, "/")
		for _, t := range c.writes[resource] {
			t.write(r)
		}
	}
}

// Violations are the rules broken so far, in the order in which that was seen.
func (c *Checker) Violations() []*Violation { return c.violations }

// Broken is the first rule broken, or nil.
func (c *Checker) Broken() *Violation {
	if len(c.violations) == 0 {
		return nil
	}
	return c.violations[0]
}

// report says that a rule is broken.
func (c *Checker) report(id, format string, args ...any) {
	i := slices.IndexFunc(rules, func(r Rule) bool { return r.ID == id })
	c.violations = append(c.violations, &Violation{Rule: rules[i], Step: c.Log.Steps(), What: fmt.Sprintf(format, args...)})
}

// Rest is to be called when faults have stopped and nothing is left to happen. It returns what is owed, and reports the
// rules that hold only then.
func (c *Checker) Rest() []Owed {
	var owed []Owed
	for _, t := range c.rests {
		if t.rest != nil {
			t.rest(func(object, why string) { owed = append(owed, Owed{t.Rule, object, why}) })
		}
		if t.settled != nil {
			t.settled(func(format string, a ...any) { c.report(t.ID, format, a...) })
		}
	}
	return owed
}

// rules are all of them, in order. (Set by init: rules report by looking themselves up.)
var rules []Rule

func init() {
	rules = slices.Concat(
		bindingRules,
		attachRules,
		stageRules,
		uncertainRules,
		mountRules,
		partRules,
		ownershipRules,
		operationRules,
		eventRules,
		cacheRules,
		scheduleRules,
		expandRules,
		quietRules,
		nodeLivenessRules,
		matchingRules,
		lostRules,
		reclaimRules,
		provisionRules,
		classRules,
		idempotentRules,
		protectionRules,
		livenessRules,
	)
	slices.SortStableFunc(rules, func(a, b Rule) int {
		return cmp.Or(cmp.Compare(a.ID[:1], b.ID[:1]), compareNumbers(a.ID[1:], b.ID[1:]))
	})
}

// compareNumbers compares "9" and "16b".
func compareNumbers(a, b string) int {
	na, nb := strings.TrimRight(a, "ab"), strings.TrimRight(b, "ab")
	return cmp.Or(cmp.Compare(len(na), len(nb)), cmp.Compare(na, nb), cmp.Compare(a, b))
}

// Rules are all rules, in order of number, safety first.
func Rules() []Rule { return slices.Clone(rules) }

// Select returns the rules with the given numbers. It fails for one that there is not.
func Select(ids ...string) ([]Rule, error) {
	var selected []Rule
	for _, id := range ids {
		i := slices.IndexFunc(rules, func(r Rule) bool { return r.ID == id })
		if i < 0 {
			return nil, fmt.Errorf("invariant: no rule %s", id)
		}
		selected = append(selected, rules[i])
	}
	return selected, nil
}
