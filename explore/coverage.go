package explore

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// A Coverage says of one kind of call of a component how often a search exercised it, and under which
// circumstances: what the caller had not seen, and which faults were injected.
type Coverage struct {
	Component string `json:"component"` // all processes of it, such as the kubelets of all nodes
	Call      string `json:"call"`      // a request or a driver call, such as "update persistentvolumes"
	Times     int    `json:"times"`
	// Points are the circumstances that are possible, by Fault and Stale. The first is that without any.
	Points []CoveragePoint `json:"points"`
}

// A CoveragePoint is a circumstance of a call: a cache of the caller lacked an event, or the call failed,
// or both.
type CoveragePoint struct {
	Stale string `json:"stale,omitempty"` // the resource of the cache; "": all caches were up to date
	Fault string `json:"fault,omitempty"` // "conflict", "crash"; "": none
	Times int    `json:"times"`           // number of such calls; 0: no schedule reached it
}

// The faults of a process that ends before its call takes effect.
const (
	crashFault    = crashEvent
	oldListsFault = "crash with old lists" // the new process lists an earlier state
)

// String returns the circumstance in words: "conflict with stale pods".
func (p CoveragePoint) String() string {
	switch {
	case p.Stale == "":
		return cmp.Or(p.Fault, "no fault")
	case p.Fault == "":
		return "stale " + p.Stale
	default:
		return p.Fault + " with stale " + p.Stale
	}
}

// CoverageTable returns a table of the calls: how often each was exercised, and which circumstances no
// schedule reached.
func CoverageTable(all []Coverage) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "COMPONENT\tCALL\tTIMES\tREACHED\tNEVER")
	for _, c := range all {
		reached := len(c.Points) - len(c.never())
		fmt.Fprintf(w, "%s\t%s\t%d\t%d of %d\t%s\n", c.Component, c.Call, c.Times, reached, len(c.Points), cmp.Or(c.neverWords(), "-"))
	}
	w.Flush()
	return b.String()
}

// never returns the circumstances that no schedule reached.
func (c Coverage) never() []CoveragePoint {
	return slices.DeleteFunc(slices.Clone(c.Points), func(p CoveragePoint) bool { return p.Times > 0 })
}

// neverWords returns what no schedule reached in few words: a fault that was never injected is not
// named again with each stale cache, nor a cache that was never stale with each fault.
func (c Coverage) neverWords() string {
	never := c.never()
	missed := func(stale, fault string) bool {
		return slices.ContainsFunc(never, func(p CoveragePoint) bool { return p.Stale == stale && p.Fault == fault })
	}
	var words []string
	for i := 0; i < len(never); {
		fault := never[i].Fault
		var stale []string
		alone := false
		for ; i < len(never) && never[i].Fault == fault; i++ {
			switch p := never[i]; {
			case p.Stale == "":
				alone = true
			case fault != "" && missed(p.Stale, ""): // said without a fault
			default:
				stale = append(stale, p.Stale)
			}
		}
		switch {
		case fault == "" && len(stale) > 0:
			words = append(words, "stale "+strings.Join(stale, ", "))
		case fault != "" && alone && len(stale) == c.stalePossible(missed):
			words = append(words, fault)
		case fault != "" && len(stale) > 0:
			words = append(words, fault+" with stale "+strings.Join(stale, ", "))
		case fault != "" && alone:
			words = append(words, fault+" with nothing stale")
		}
	}
	return strings.Join(words, "; ")
}

// stalePossible returns the number of caches that were stale without a fault.
func (c Coverage) stalePossible(missed func(stale, fault string) bool) int {
	n := 0
	for _, p := range c.Points {
		if p.Fault == "" && p.Stale != "" && !missed(p.Stale, "") {
			n++
		}
	}
	return n
}

// A coverage counts what the schedules of a search exercise.
type coverage struct {
	specs    sim.FaultSpecs
	restarts bool
	calls    map[callKey]*calls
	stale    map[string]map[string]bool // caches that lacked an event in some schedule, by component
}

// A callKey is a kind of call.
type callKey struct{ component, call string }

// calls counts the calls of one kind.
type calls struct {
	times  int
	faults []string // that are possible, sorted
	points map[CoveragePoint]int
	aimed  map[CoveragePoint]bool // faults that a variation of the corpus was meant to inject
}

func newCoverage(specs sim.FaultSpecs, restarts bool) *coverage {
	return &coverage{specs, restarts, map[callKey]*calls{}, map[string]map[string]bool{}}
}

// of returns the counts of the call at which a task is suspended.
func (c *coverage) of(t *sim.Task) *calls {
	action, _ := t.Pending()
	resource, _, _ := strings.Cut(action.Object, "/")
	key := callKey{componentOf(t.Process()), action.Verb}
	if action.Kind == trace.KindAPI {
		key.call += " " + resource
	}
	all := c.calls[key]
	if all == nil {
		all = &calls{points: map[CoveragePoint]int{}, aimed: map[CoveragePoint]bool{}}
		c.calls[key] = all
		one := call{task: t.Name(), process: t.Process(), action: action}
		for _, spec := range c.specs {
			if fault, err := sim.ParseFault(spec.Name); err == nil && fault.Applies(action) && specMatches(spec, one) {
				all.faults = append(all.faults, fault.String())
			}
		}
		if c.crashes(t.Process()) {
			all.faults = append(all.faults, crashFault, oldListsFault)
		}
		slices.Sort(all.faults)
		all.faults = slices.Compact(all.faults)
	}
	return all
}

// crashes reports whether the search lets a process crash.
func (c *coverage) crashes(process string) bool {
	return c.restarts || slices.ContainsFunc(c.specs, func(spec sim.FaultSpec) bool {
		target, _, _ := strings.Cut(spec.Target, " ")
		return spec.Name == crashFault && (target == "" || target == process)
	})
}

// componentOf returns the component of a process: "kubelet" of "kubelet(node-1)", "pvcontroller" of its
// second replica.
func componentOf(process string) string {
	if end := strings.IndexAny(process, "(#"); end > 0 {
		return process[:end]
	}
	return process
}

// list returns what was exercised, by component and call.
func (c *coverage) list() []Coverage {
	var all []Coverage
	for _, key := range slices.SortedFunc(maps.Keys(c.calls), func(a, b callKey) int {
		return cmp.Or(cmp.Compare(a.component, b.component), cmp.Compare(a.call, b.call))
	}) {
		counts := c.calls[key]
		one := Coverage{Component: key.component, Call: key.call, Times: counts.times}
		stale := append([]string{""}, slices.Sorted(maps.Keys(c.stale[key.component]))...)
		for _, fault := range append([]string{""}, counts.faults...) {
			for _, resource := range stale {
				p := CoveragePoint{Stale: resource, Fault: fault}
				p.Times = counts.points[p]
				one.Points = append(one.Points, p)
			}
		}
		all = append(all, one)
	}
	return all
}
