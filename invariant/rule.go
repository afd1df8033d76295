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
	nodeRule func(c *Checker) watcher                   // see ofNodes
	commits  []string                                   // the resources whose commits it wants to be told of
	commit   func(e fake.Commit)                        // after the commit
	writes   []string                                   // the resources whose writes it wants to be told of
	write    func(r trace.Record)                       // after a request that writes, also a failed one; see Effective
	call     func(r trace.Record)                       // after a driver call, also a failed one; see Effective
	deliver  func(r trace.Record)                       // after a delivery to a cache
	event    func(r trace.Record)                       // after something befell the world: trace.KindEvent
	work     func(r trace.Record)                       // after a worker has taken up a key
	request  func(r trace.Record)                       // after a request to the API server, also a failed one
	rest     func(report func(object, why string))      // nothing is left to happen: what is owed?
	settled  func(report func(format string, a ...any)) // nothing is left to happen: is it as it must be?
}

// tookEffect tells whether a driver call or a request took effect: it succeeded, or its answer was lost.
func tookEffect(r trace.Record) bool { return r.Err == nil || r.Lost }

// Violation is a rule that was broken.
type Violation struct {
	Rule    Rule
	Step    int // the step of the trace after which it was seen
	Message string
}

// Error says it in a sentence: "I1: two volumes bound to one claim: …".
func (v *Violation) Error() string { return v.Rule.String() + ": " + v.Message }

// Pending is something that has yet to come when nothing is left to happen.
type Pending struct {
	Rule   Rule
	Object string // "persistentvolumeclaims/default/data"
	Why    string
}

// String gives "object why (L1)".
func (o Pending) String() string { return fmt.Sprintf("%s %s (%s)", o.Object, o.Why, o.Rule.ID) }

// nodeRule has a rule begin only where there are pods, nodes or attachments, or a driver is called: it is about these, so that
// without them nothing breaks it, and it has nothing to remember.
func nodeRule(begin func(c *Checker) watcher) func(c *Checker) watcher {
	return func(*Checker) watcher { return watcher{nodeRule: begin} }
}

// Checker is a set of rules at work in one world.
type Checker struct {
	World
	violations  []*Violation
	controllers controllers                           // who has listed something
	rules       []activeRule                          // all of them
	nodes       bool                                  // the rules about nodes have begun
	commits     map[string][]*activeRule              // by resource: who is told
	writes      map[string][]*activeRule              // by resource
	actions     map[trace.Kind][]func(r trace.Record) // who is told of an action
	rests       []*activeRule
	resyncing   bool // see Resync
}

// activeRule is a rule to be told.
type activeRule struct {
	Rule
	watcher
}

// Watch sets rules over a world, before anything happens in it that they are to see.
func Watch(w World, rules ...Rule) *Checker {
	c := &Checker{World: w, controllers: controllers{}, rules: make([]activeRule, len(rules))}
	for i, r := range rules {
		c.rules[i] = activeRule{r, r.begin(c)}
	}
	c.index()
	for _, resource := range nodeResources {
		if len(w.API.List(resource)) > 0 {
			c.startNodeRules()
			break
		}
	}
	w.API.OnCommit(func(e fake.Commit) {
		if !c.nodes && slices.Contains(nodeResources, e.Resource) {
			c.startNodeRules()
		}
		for _, t := range c.commits[e.Resource] {
			t.commit(e)
		}
	})
	w.Log.Watch(c.onRecord)
	return c
}

// onRecord takes in a record of the trace.
func (c *Checker) onRecord(r trace.Record) {
	if !c.nodes && isNodeRecord(r) {
		c.startNodeRules()
	}
	switch r.Kind {
	case trace.KindAPI:
		c.onWrite(r)
	case trace.KindDeliver:
		c.controllers.observe(r)
	}
	for _, f := range c.actions[r.Kind] {
		f(r)
	}
}

// nodeResources are those that rules about nodes are about.
var nodeResources = []string{"pods", "nodes", "csinodes", "volumeattachments"}

// isNodeRecord tells whether a record is the first of those that rules about nodes are about.
func isNodeRecord(r trace.Record) bool {
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

// startNodeRules begins the rules about nodes.
func (c *Checker) startNodeRules() {
	c.nodes = true
	for i := range c.rules {
		if t := &c.rules[i]; t.nodeRule != nil {
			t.watcher = t.nodeRule(c)
		}
	}
	c.index()
}

// index finds out who is to be told of what.
func (c *Checker) index() {
	c.commits, c.writes, c.actions = map[string][]*activeRule{}, map[string][]*activeRule{}, map[trace.Kind][]func(r trace.Record){}
	c.rests = make([]*activeRule, 0, subscribersMax)
	for i := range c.rules {
		t := &c.rules[i]
		for _, resource := range t.watcher.writes {
			c.writes[resource] = append(withCapacity(c.writes[resource]), t)
		}
		for _, resource := range t.watcher.commits {
			c.commits[resource] = append(withCapacity(c.commits[resource]), t)
		}
		c.subscribe(trace.KindDriver, t.call)
		c.subscribe(trace.KindDeliver, t.deliver)
		c.subscribe(trace.KindEvent, t.event)
		c.subscribe(trace.KindWork, t.work)
		c.subscribe(trace.KindAPI, t.request)
		if t.rest != nil || t.settled != nil {
			c.rests = append(c.rests, t)
		}
	}
}

// subscribersMax is how many rules are told of one thing, at most, mostly.
const subscribersMax = 16

// withCapacity gives an empty list room for many.
func withCapacity[T any](list []T) []T {
	if list == nil {
		return make([]T, 0, subscribersMax)
	}
	return list
}

// subscribe has a rule told of each action of a kind, if it wants to be.
func (c *Checker) subscribe(kind trace.Kind, f func(r trace.Record)) {
	if f != nil {
		c.actions[kind] = append(withCapacity(c.actions[kind]), f)
	}
}

// onWrite tells of a request, if it writes.
func (c *Checker) onWrite(r trace.Record) {
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

// FirstViolation is the first rule broken, or nil.
func (c *Checker) FirstViolation() *Violation {
	if len(c.violations) == 0 {
		return nil
	}
	return c.violations[0]
}

// report says that a rule is broken.
func (c *Checker) report(id, format string, args ...any) {
	i := slices.IndexFunc(rules, func(r Rule) bool { return r.ID == id })
	c.violations = append(c.violations, &Violation{Rule: rules[i], Step: c.Log.Steps(), Message: fmt.Sprintf(format, args...)})
}

// CheckAtRest is to be called when faults have stopped and nothing is left to happen. It returns what is owed, and reports the
// rules that hold only then.
func (c *Checker) CheckAtRest() []Pending {
	var owed []Pending
	for _, t := range c.rests {
		if t.rest != nil {
			t.rest(func(object, why string) { owed = append(owed, Pending{t.Rule, object, why}) })
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
		subPathRules,
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
