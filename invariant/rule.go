package invariant

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/reuse"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim/trace"
)

// A World is what rules observe.
type World struct {
	API     *fake.Server
	Log     *trace.Log
	Now     func() time.Time
	Devices Devices // nil: no devices; rules about them are not checked
	// Reuse is memory for what the rules remember. They must not be used after its Rewind. nil: they allocate.
	Reuse *reuse.Memory
}

// Devices is the state below the API: backends and the disks of the nodes.
type Devices interface {
	// Backend is that of the CSI driver.
	Backend
	// Plugins returns those of other CSI drivers, and of the plugins of the PersistentVolume controller
	// that provision and delete volumes.
	Plugins() []Backend
	// Nodes returns the nodes that have a disk, sorted.
	Nodes() []string
	// Mounts returns the mount table of a node, sorted by path. The Source of a volume's mount is
	// the volume's handle.
	Mounts(node string) []nodefs.Mount
}

// A Rule is a property that must hold in every run.
type Rule struct {
	ID      string // "I1", "L2"
	Forbids string // what it forbids, as in "two volumes bound to one claim"
	// Begin returns the checks of a rule of one's own, for a new world. It is nil for the rules of
	// this package.
	Begin func(w World) Checks
	// begin returns the watcher of a rule of this package.
	begin func(c *Checker) watcher
}

// Checks are a rule's checks of one world. Any may be nil. An error is a violation of the rule.
type Checks struct {
	// Commit is called after each change of an object, before the actor learns of it.
	Commit func(e fake.Commit) error
	// Record is called after each action: a request, a driver call, a delivery to a cache. Task names
	// the actor, as in "operator/configmaps"; a write has the object before and after.
	Record func(r trace.Record) error
	// AtRest is called when the world is at rest.
	AtRest func() error
}

// String returns "I1: two volumes bound to one claim".
func (r Rule) String() string { return r.ID + ": " + r.Forbids }

// A watcher is a rule's callbacks for one world. Any may be nil.
type watcher struct {
	later   later               // the rule has not begun
	commits []string            // resources of commit
	commit  func(e fake.Commit) // after a commit, unless one of the next two is for it
	volume  func(before, after *corev1.PersistentVolume)
	claim   func(before, after *corev1.PersistentVolumeClaim)
	writes  []string                                   // resources of write
	write   func(r trace.Record)                       // after a request that writes, also a failed one; see tookEffect
	call    func(r trace.Record)                       // after a driver call, also a failed one; see tookEffect
	deliver func(r trace.Record)                       // after a delivery to a cache
	event   func(r trace.Record)                       // after an event of the simulation: trace.KindEvent
	work    func(r trace.Record)                       // after a worker has taken up a key
	request func(r trace.Record)                       // after a request to the API server, also a failed one
	rest    func(report func(object, why string))      // at rest: reports what is pending
	settled func(report func(format string, a ...any)) // at rest: reports violations
}

// tookEffect reports whether a driver call or a request took effect: it succeeded, or its response
// was lost.
func tookEffect(r trace.Record) bool { return r.Err == nil || r.Lost }

// A Violation is the violation of a rule.
type Violation struct {
	Rule    Rule
	Step    int // step of the trace at which it was detected
	Message string
	AtRest  bool // it was found in the world at rest, or when time passed there: see Resync
}

// Error returns "I1: two volumes bound to one claim: …".
func (v *Violation) Error() string { return v.Rule.String() + ": " + v.Message }

// A Pending is a liveness obligation that is not met once the world is at rest.
type Pending struct {
	Rule   Rule
	Object string // "persistentvolumeclaims/default/data"
	Why    string
}

// String returns "object why (L1)".
func (o Pending) String() string { return fmt.Sprintf("%s %s (%s)", o.Object, o.Why, o.Rule.ID) }

// A subject is what a group of rules is about. They begin when the world has an object of one of the
// resources: without it they cannot be violated and have nothing to record.
type subject []string

var (
	// Pods, their nodes and attachments. Driver calls and events begin these rules, too; see isNodeRecord.
	aboutNodes = subject{"pods", "nodes", "csinodes", "volumeattachments"}
	// What makes pods, and what limits them.
	aboutWorkloads = subject{
		"replicasets", "deployments", "statefulsets", "daemonsets", "jobs", "cronjobs", "replicationcontrollers", "resourcequotas",
	}
	// The volume groups of nodes.
	aboutLocalStorage = subject{localRecords}
)

// later is the begin of a rule that waits for its subject.
type later struct {
	subject *subject
	begin   func(c *Checker) watcher
}

// nodeRule defers the begin of a rule until the world has pods, nodes, attachments or driver calls.
func nodeRule(begin func(c *Checker) watcher) func(c *Checker) watcher {
	return func(*Checker) watcher { return watcher{later: later{&aboutNodes, begin}} }
}

// workloadRule defers the begin of a rule until the world has an object that makes pods or limits them.
func workloadRule(begin func(c *Checker) watcher) func(c *Checker) watcher {
	return func(*Checker) watcher { return watcher{later: later{&aboutWorkloads, begin}} }
}

// localRule defers the begin of a rule until the world has a record of local storage.
func localRule(begin func(c *Checker) watcher) func(c *Checker) watcher {
	return func(*Checker) watcher { return watcher{later: later{&aboutLocalStorage, begin}} }
}

// A Checker checks a set of rules in one world.
type Checker struct {
	World
	others      otherDrivers
	violations  []*Violation
	controllers controllers                            // components that have a cache
	rules       []activeRule                           // all of them
	watchers    []watcher                              // room for those of further rules
	waiting     []*subject                             // of rules that have not begun
	commits     roster[string, *watcher]               // subscribers by resource
	writes      roster[string, *watcher]               // subscribers by resource
	actions     roster[trace.Kind, func(trace.Record)] // subscribers by kind of action
	rests       []*activeRule
	own         []ownRule
	handles     byHandle          // nil: no rule uses it
	resyncing   bool              // see Resync
	files       *fileTracker      // of I25; nil: it has not begun
	directories *directoryTracker // of I41
	committing  bool              // a commit is being checked, whose action is not in the trace yet
}

// An ownRule is a rule of one's own with its checks.
type ownRule struct {
	Rule
	Checks
}

// An activeRule is a rule with its watcher. Worlds share the rule.
type activeRule struct {
	*Rule
	*watcher       // empty until the rule begins
	later    later // what the rule waits for, until it begins
}

// waiting is the watcher of a rule that has not begun.
var waiting watcher

// Watch applies rules to a world. It must be called before the first action that they should
// observe. It keeps the rules, which must not be changed.
func Watch(w World, rules ...Rule) *Checker {
	c := &Checker{World: w, controllers: controllers{}, rules: make([]activeRule, 0, len(rules))}
	for i := range rules {
		r := &rules[i]
		if r.Begin != nil {
			c.own = append(c.own, ownRule{*r, r.Begin(w)})
			continue
		}
		c.rules = append(c.rules, activeRule{Rule: r})
		c.begin(&c.rules[len(c.rules)-1], r.begin(c))
	}
	c.index()
	c.waiting = []*subject{&aboutNodes, &aboutWorkloads, &aboutLocalStorage, &aboutAttributes, &aboutSnapshots, &aboutContainers}
	for _, s := range slices.Clone(c.waiting) {
		if slices.ContainsFunc(*s, func(resource string) bool { return w.API.Count(resource) > 0 }) {
			c.start(s)
		}
	}
	c.rememberNodes(w.API.List("csinodes")...)
	w.API.OnCommit(func(e fake.Commit) {
		if e.Resource == "csinodes" {
			c.rememberNodes(e.After)
		}
		if e.Resource == "persistentvolumes" && c.handles != nil {
			before, _ := e.Before.(*corev1.PersistentVolume)
			c.handles.observe(before, e.After.(*corev1.PersistentVolume), e.Type == "DELETED")
		}
		c.meet(e.Resource)
		c.committing = true
		defer func() { c.committing = false }()
		for _, t := range c.commits.of(e.Resource) {
			t.observe(e)
		}
		for _, t := range c.own {
			if t.Commit != nil {
				c.violated(t.Rule, t.Commit(e))
			}
		}
	})
	w.Log.Watch(c.onRecord)
	return c
}

// onRecord handles a record of the trace.
func (c *Checker) onRecord(r trace.Record) {
	if c.waits(&aboutNodes) && isNodeRecord(r) {
		c.start(&aboutNodes)
	}
	if isContainerAccess(r) {
		c.observeAccess(r)
	}
	switch r.Kind {
	case trace.KindAPI:
		c.onWrite(r)
	case trace.KindDriver:
		c.observeOther(r)
	case trace.KindEvent:
		c.rebootOther(r)
	case trace.KindDeliver:
		c.controllers.observe(r)
	}
	for _, f := range c.actions.of(r.Kind) {
		f(r)
	}
	for _, t := range c.own {
		if t.Record != nil {
			c.violated(t.Rule, t.Record(r))
		}
	}
}

// violated records a violation of a rule of one's own, if err is one.
func (c *Checker) violated(rule Rule, err error) {
	if err != nil {
		c.violations = append(c.violations, &Violation{Rule: rule, Step: c.step(), Message: err.Error(), AtRest: c.resyncing})
	}
}

// step returns the step of the trace that is being checked.
func (c *Checker) step() int {
	if c.committing {
		return c.Log.Steps() + 1
	}
	return c.Log.Steps()
}

// isNodeRecord reports whether a record concerns the rules about nodes.
func isNodeRecord(r trace.Record) bool {
	switch r.Kind {
	case trace.KindDriver:
		return true
	case trace.KindEvent:
		return r.Verb != "tick"
	case trace.KindAPI:
		resource, _, _ := strings.Cut(r.Object, "/")
		return slices.Contains(aboutNodes, resource)
	}
	return false
}

// waits reports whether the rules about a subject have not begun.
func (c *Checker) waits(s *subject) bool { return slices.Contains(c.waiting, s) }

// meet begins the rules that are about a resource.
func (c *Checker) meet(resource string) {
	for _, s := range c.waiting {
		if slices.Contains(*s, resource) {
			c.start(s)
			return
		}
	}
}

// start begins the rules about a subject.
func (c *Checker) start(s *subject) {
	c.waiting = slices.DeleteFunc(c.waiting, func(other *subject) bool { return other == s })
	for i := range c.rules {
		if t := &c.rules[i]; t.later.subject == s {
			c.begin(t, t.later.begin(c))
		}
	}
	c.index()
}

// begin gives a rule its watcher.
func (c *Checker) begin(t *activeRule, w watcher) {
	if w.later.subject != nil {
		t.watcher, t.later = &waiting, w.later
		return
	}
	if len(c.watchers) == cap(c.watchers) {
		c.watchers = make([]watcher, 0, watchersMin)
	}
	c.watchers = append(c.watchers, w)
	t.watcher, t.later = &c.watchers[len(c.watchers)-1], later{}
}

// watchersMin is the number of watchers that are allocated at once.
const watchersMin = 32

// onWrite handles a request, if it writes.
func (c *Checker) onWrite(r trace.Record) {
	switch r.Verb[0] {
	case 'c', 'u', 'p', 'd': // create, update, patch, delete, and their subresources
		resource, _, _ := strings.Cut(r.Object, "/")
		for _, t := range c.writes.of(resource) {
			t.write(r)
		}
	}
}

// Violations returns the violations so far, in the order of their detection.
func (c *Checker) Violations() []*Violation { return c.violations }

// FirstViolation returns the first violation, or nil.
func (c *Checker) FirstViolation() *Violation {
	if len(c.violations) == 0 {
		return nil
	}
	return c.violations[0]
}

// report records a violation.
func (c *Checker) report(id, format string, args ...any) {
	i := slices.IndexFunc(rules, func(r Rule) bool { return r.ID == id })
	c.violations = append(c.violations,
		&Violation{Rule: rules[i], Step: c.step(), Message: fmt.Sprintf(format, args...), AtRest: c.resyncing})
}

// CheckAtRest must be called when faults have stopped and no step is left. It returns what is
// pending, and reports violations of the rules that hold only then.
func (c *Checker) CheckAtRest() []Pending {
	var pending []Pending
	before := len(c.violations)
	for _, t := range c.rests {
		if t.rest != nil {
			t.rest(func(object, why string) { pending = append(pending, Pending{*t.Rule, object, why}) })
		}
		if t.settled != nil {
			t.settled(func(format string, a ...any) { c.report(t.ID, format, a...) })
		}
	}
	for _, t := range c.own {
		if t.AtRest != nil {
			c.violated(t.Rule, t.AtRest())
		}
	}
	for _, v := range c.violations[before:] {
		v.AtRest = true
	}
	return pending
}

// A builtIn is a rule of this package.
type builtIn struct {
	id, forbids string
	begin       func(c *Checker) watcher
}

// rules are all rules, sorted. They are set by init, since rules look themselves up to report.
var rules []Rule

func init() {
	for _, r := range slices.Concat(
		bindingRules,
		attachRules,
		stageRules,
		uncertainRules,
		mountRules,
		subPathRules,
		podFilesRules,
		ownershipRules,
		operationRules,
		eventRules,
		cacheRules,
		scheduleRules,
		preemptionRules,
		localStorageRules,
		statefulSetRules,
		deploymentRules,
		daemonSetRules,
		containerRules,
		containerDataRules,
		jobRules,
		quotaRules,
		deadNodeRules,
		expandRules,
		attributesRules,
		snapshotRules,
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
	) {
		rules = append(rules, Rule{ID: r.id, Forbids: r.forbids, begin: r.begin})
	}
	slices.SortStableFunc(rules, func(a, b Rule) int {
		return cmp.Or(cmp.Compare(a.ID[:1], b.ID[:1]), compareNumbers(a.ID[1:], b.ID[1:]))
	})
}

// compareNumbers compares "9" and "16b".
func compareNumbers(a, b string) int {
	na, nb := strings.TrimRight(a, "ab"), strings.TrimRight(b, "ab")
	return cmp.Or(cmp.Compare(len(na), len(nb)), cmp.Compare(na, nb), cmp.Compare(a, b))
}

// Rules returns all rules, by number, safety first.
func Rules() []Rule { return slices.Clone(rules) }

// Select returns the rules with the given numbers. It fails for an unknown number.
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
