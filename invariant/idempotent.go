package invariant

import (
	"strings"

	"github.com/volsim/volsim/sim/trace"
)

// What must not be done twice.
var idempotentRules = []Rule{
	{"I14", "a write of a claim or a volume by a controller that changes nothing", beginIdempotent},
}

// beginIdempotent: a controller does not update a claim or a volume to what it is already: whatever it puts right is right
// when it looks again. Patches are left out: they carry no resourceVersion, and somebody else may have done meanwhile what
// a patch says.
func beginIdempotent(c *Checker) watcher {
	return watcher{
		writes: []string{"persistentvolumeclaims", "persistentvolumes"},
		write: func(r trace.Record) {
			if r.Err == nil && r.After == nil && strings.HasPrefix(r.Verb, "update") && c.controllers.includes(r) {
				c.report("I14", "%s wrote %s as it was", r.Task, r.Object)
			}
		},
	}
}
