package invariant

import (
	"strings"

	"github.com/volsim/volsim/sim/trace"
)

// Rules about repeated writes.
var idempotentRules = []builtIn{
	{"I14", "a write of a claim or a volume by a controller that changes nothing", beginIdempotent},
}

// beginIdempotent checks that a controller does not update a claim or a volume without changing it:
// after a repair the next sync finds nothing to do. Patches are ignored: they carry no
// resourceVersion, and another client may have written the same meanwhile.
func beginIdempotent(c *Checker) watcher {
	return watcher{
		writes: claimsAndVolumes,
		write: func(r trace.Record) {
			if r.Err == nil && r.After == nil && strings.HasPrefix(r.Verb, "update") && c.controllers.includes(r) {
				c.report("I14", "%s updated %s without a change", r.Task, r.Object)
			}
		},
	}
}
