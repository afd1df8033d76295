package invariant

import (
	"strings"

	"github.com/volsim/volsim/sim/trace"
)

// Rest.
var quietRules = []Rule{
	{"L8", "a request to the API server when nothing is left to do", beginQuiet},
}

// beginQuiet: while resyncs pass over a world at rest, no component asks the API server for anything.
func beginQuiet(c *Checker) watcher {
	return watcher{
		request: func(r trace.Record) {
			if component, _, ok := strings.Cut(r.Task, "/"); c.resyncing && ok {
				c.report("L8", "%s: %s %s, when nothing was left to do", component, r.Verb, r.Object)
			}
		},
		event: func(r trace.Record) { c.resyncing = c.resyncing && r.Verb == "tick" }, // there is something to do again
	}
}

// Resync is to be called when nothing is left to happen and nothing is owed. pass is to let time pass until every component
// has looked at everything again; what a component asks the API server for meanwhile breaks L8. It returns pass's error.
//
// Upstream breaks this rule: see kubernetes issue 118545.
func (c *Checker) Resync(pass func() error) error {
	c.resyncing = true
	defer func() { c.resyncing = false }()
	return pass()
}
