package cluster

import (
	"slices"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/volsim/volsim/fake"
)

// A wake is an object with which a component has something to do.
//
// A component without such objects would only cost memory, and dilute the faults among which a
// search chooses. In a stepped world its process therefore starts with the first of them, as part of
// the step that stores it. It cannot have missed anything: it begins with a list, as after a crash.
// A live world starts all components at once.
type wake struct {
	resource string
	match    func(obj fake.Object) bool // nil: every object
	gone     bool                       // the deletion of an object wakes, not its presence
}

// fallAsleep defers the start of a component that has nothing to do yet, and reports whether it did.
func (c *Cluster) fallAsleep(p *componentState) bool {
	if len(p.wakes) == 0 || c.isLive() || slices.ContainsFunc(p.wakes, c.hasObject) {
		return false
	}
	if c.asleep == nil {
		c.asleep = map[string][]*componentState{}
		c.server.OnCommit(c.wakeFor)
	}
	for _, w := range p.wakes {
		c.asleep[w.resource] = append(c.asleep[w.resource], p)
	}
	p.asleep = true
	return true
}

// hasObject reports whether an object is stored that wakes a component.
func (c *Cluster) hasObject(w wake) bool {
	return !w.gone && slices.ContainsFunc(c.server.List(w.resource), w.matches)
}

func (w wake) matches(obj fake.Object) bool { return w.match == nil || w.match(obj) }

// wakeFor starts the components that have something to do with a committed object.
func (c *Cluster) wakeFor(made fake.Commit) {
	sleepers := c.asleep[made.Resource]
	if len(sleepers) == 0 {
		return
	}
	gone := made.Type == watch.Deleted
	obj := made.After
	if gone {
		obj = made.Before
	}
	for _, p := range slices.Clone(sleepers) {
		if p.asleep && slices.ContainsFunc(p.wakes, func(w wake) bool {
			return w.resource == made.Resource && w.gone == gone && w.matches(obj)
		}) {
			c.must(c.launch(p))
		}
	}
	c.asleep[made.Resource] = slices.DeleteFunc(sleepers, func(p *componentState) bool { return !p.asleep })
}
