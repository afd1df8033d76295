package scenario

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"strings"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// Livelock says that the world goes on for ever without getting anywhere.
type Livelock struct {
	Steps int            // taken so far
	Cycle []trace.Record // what happens again and again; nil: no state was met twice up to the bound
}

// Error tells the cycle.
func (l *Livelock) Error() string {
	if l.Cycle == nil {
		return fmt.Sprintf("no rest after %d steps", l.Steps)
	}
	var words []string
	for _, r := range l.Cycle {
		words = append(words, r.Task+" "+r.Action.String())
	}
	return fmt.Sprintf("the same state came back after %d steps: %s", l.Steps, strings.Join(words, "; "))
}

// cycleDetector notices that a state comes back. It begins to look when a run has lasted far longer than runs do.
type cycleDetector struct {
	seed maphash.Seed
	seen map[uint64][]int // state: records in the log whenever it was met
}

// cycleVisits is how often a state must be met: a world that waits for a long time may look again and again meanwhile.
const cycleVisits = 20

// check compares the state with all that were met before. Two states are the same when the API server holds the same but for
// versions and times, and the same actors could be moved next to do the same.
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
	for _, resource := range []string{"persistentvolumeclaims", "persistentvolumes", "pods", "volumeattachments", "nodes"} {
		for _, obj := range of.Server().List(resource) {
			content, err := json.Marshal(timeless(obj))
			if err != nil {
				panic("scenario: " + err.Error()) // objects of the API are made to be written as JSON
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

// timeless is an object without its version and its times.
func timeless(obj fake.Object) fake.Object {
	o := obj.DeepCopyObject().(fake.Object)
	o.SetResourceVersion("")
	o.SetManagedFields(nil)
	return o
}
