package invariant

import (
	"strings"

	"github.com/volsim/volsim/sim/trace"
)

// Rules about a world at rest.
var quietRules = []builtIn{
	{"L8", "an API request when nothing is left to do", beginQuiet},
}

// heartbeats is the prefix of the objects that kubelets renew as time passes.
const heartbeats = "leases/kube-node-lease/"

// beginQuiet checks that no component makes API requests while resyncs run in a world at rest. The
// renewal of a node's Lease only shows that time passes.
func beginQuiet(c *Checker) watcher {
	return watcher{
		request: func(r trace.Record) {
			if component, _, ok := strings.Cut(r.Task, "/"); c.resyncing && ok && !strings.HasPrefix(r.Object, heartbeats) {
				c.report("L8", "%s: %s %s, when nothing was left to do", component, r.Verb, r.Object)
			}
		},
		event: func(r trace.Record) {
			c.resyncing = c.resyncing && r.Verb == "tick"
		}, // after another event there is work again
	}
}

// Resync checks L8. It must be called when no step is left and nothing is pending. pass must let
// time pass until every component has resynced; an API request meanwhile violates the rule. Resync
// returns pass's error.
//
// Upstream violates this rule: see kubernetes issue 118545.
func (c *Checker) Resync(pass func() error) error {
	c.resyncing = true
	defer func() { c.resyncing = false }()
	return pass()
}
