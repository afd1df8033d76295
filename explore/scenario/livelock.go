package scenario

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"strings"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// A Livelock is the failure of a world that runs indefinitely without progress.
type Livelock struct {
	Steps int            // taken so far
	Cycle []trace.Record // the records that repeat; nil: no state recurred up to the bound
	// Attached are the obligations of L5: attachments about which the driver, the API and the nodes disagree. It
	// may be why the world does not come to rest.
	Attached []invariant.Pending
}

// Error returns the cycle, and what is attached in only one place.
func (l *Livelock) Error() string {
	text := l.cycle()
	for _, p := range l.Attached {
		text += "; " + p.String()
	}
	return text
}

func (l *Livelock) cycle() string {
	if l.Cycle == nil {
		return fmt.Sprintf("not at rest after %d steps", l.Steps)
	}
	var words []string
	for _, r := range l.Cycle {
		words = append(words, r.Task+" "+r.Action.String())
	}
	return fmt.Sprintf("the same state recurred after %d steps: %s", l.Steps, strings.Join(words, "; "))
}

// A cycleDetector detects that a state recurs. It starts when a run has taken far more steps than
// usual.
type cycleDetector struct {
	seed maphash.Seed
	seen map[uint64][]int // state: lengths of the log at its visits
}

// cycleVisits is the number of visits of a state that prove a livelock. A world that waits for a
// long time may poll repeatedly meanwhile.
const cycleVisits = 20

// check compares the state with all earlier ones. Two states are the same if the API server stores
// the same objects, except for versions and times, and the same tasks can run with the same pending
// actions.
func (c *cycleDetector) check(of *cluster.Cluster, steps int) *Livelock {
	if c.seen == nil {
		c.seed, c.seen = maphash.MakeSeed(), map[uint64][]int{}
	}
	state := c.hash(of)
	met := append(c.seen[state], of.Trace().Len())
	c.seen[state] = met
	if len(met) < cycleVisits {
		return nil
	}
	last := met[len(met)-2:]
	return &Livelock{Steps: steps, Cycle: of.Trace().Records()[last[0]:last[1]]}
}

func (c *cycleDetector) hash(of *cluster.Cluster) uint64 {
	var h maphash.Hash
	h.SetSeed(c.seed)
	for _, resource := range []string{
		"persistentvolumeclaims", "persistentvolumes", "pods",
		"volumeattachments", "nodes",
	} {
		for _, obj := range of.Server().List(resource) {
			content, err := json.Marshal(timeless(obj))
			if err != nil {
				panic("scenario: " + err.Error()) // API objects always marshal to JSON
			}
			h.Write(content)
		}
	}
	for _, name := range of.Host().(*sim.Stepped).Enabled() {
		h.WriteString(name)
		h.WriteByte(0)
	}
	return h.Sum64()
}

// timeless returns a copy of an object without its version and its times.
func timeless(obj fake.Object) fake.Object {
	o := obj.DeepCopyObject().(fake.Object)
	o.SetResourceVersion("")
	o.SetManagedFields(nil)
	return o
}
