package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/volsim/volsim/cluster"
)

// An Outcome is the final state of a world at rest: the number of claims, volumes, pods and snapshots in
// each phase, and of attachments. Which claim is bound to which volume
// is not part of it.
type Outcome map[string]int

// outcomeOf returns the outcome of a world.
func outcomeOf(c *cluster.Cluster) Outcome {
	end := Outcome{}
	for _, kind := range []string{"claim", "volume", "pod", "snapshot", "groupsnapshot"} {
		if c.Server().Count(resources[kind]) == 0 { // the world may have no snapshots
			continue
		}
		for _, obj := range c.Server().List(resources[kind]) {
			end[strings.TrimSpace(kind+" "+phase(obj))]++
		}
	}
	if n := len(c.Server().List("volumeattachments")); n > 0 {
		end["attachment"] = n
	}
	return end
}

// String returns the text form: "2 claims Bound, 1 pod Running".
func (e Outcome) String() string {
	var words []string
	for _, k := range slices.Sorted(maps.Keys(e)) {
		kind, phase, _ := strings.Cut(k, " ")
		if e[k] != 1 {
			kind += "s"
		}
		words = append(words, strings.TrimSpace(fmt.Sprintf("%d %s %s", e[k], kind, phase)))
	}
	if words == nil {
		return "empty"
	}
	return strings.Join(words, ", ")
}

// A DivergentOutcome is the failure of a schedule whose final state differs from that of the
// default order.
type DivergentOutcome struct{ Default, Actual Outcome }

// Error returns both final states.
func (o *DivergentOutcome) Error() string {
	return fmt.Sprintf("final state: %s; in the default order: %s", o.Actual, o.Default)
}
