package invariant

import "github.com/volsim/volsim/sim/trace"

// subscribersMax is the usual maximum number of resources and of kinds of action, and of subscribers at rest.
const subscribersMax = 16

// index builds the lists of subscribers.
func (c *Checker) index() {
	if c.commits == nil {
		c.commits = make(roster[string, *watcher], 0, subscribersMax)
		c.writes = make(roster[string, *watcher], 0, subscribersMax)
		c.actions = make(roster[trace.Kind, func(trace.Record)], 0, subscribersMax)
		c.rests = make([]*activeRule, 0, subscribersMax)
	}
	c.commits.reset()
	c.writes.reset()
	c.actions.reset()
	c.rests = c.rests[:0]
	for i := range c.rules {
		c.rules[i].announce(c)
	}
	c.commits.allocate()
	c.writes.allocate()
	c.actions.allocate()
	for i := range c.rules {
		t := &c.rules[i]
		t.subscribe(c)
		if t.rest != nil || t.settled != nil {
			c.rests = append(c.rests, t)
		}
	}
}

// announce announces the subscriptions of a watcher.
func (w *watcher) announce(c *Checker) {
	for _, resource := range w.writes {
		c.writes.announce(resource)
	}
	for _, resource := range w.commits {
		c.commits.announce(resource)
	}
	for _, a := range w.actions() {
		if a.f != nil {
			c.actions.announce(a.kind)
		}
	}
}

// subscribe adds the announced subscriptions of a watcher.
func (w *watcher) subscribe(c *Checker) {
	for _, resource := range w.writes {
		c.writes.add(resource, w)
	}
	for _, resource := range w.commits {
		c.commits.add(resource, w)
	}
	for _, a := range w.actions() {
		if a.f != nil {
			c.actions.add(a.kind, a.f)
		}
	}
}

// An action is what a watcher has for actions of a kind; f may be nil.
type action struct {
	kind trace.Kind
	f    func(r trace.Record)
}

func (w *watcher) actions() [5]action {
	return [...]action{
		{trace.KindDriver, w.call},
		{trace.KindDeliver, w.deliver},
		{trace.KindEvent, w.event},
		{trace.KindWork, w.work},
		{trace.KindAPI, w.request},
	}
}
