package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/volsim/volsim/cluster"
)

// Outcome is how things stand when a world has come to rest: how many claims, volumes and pods there are in each phase, how many
// attachments, and how many volumes the back end holds. Which claim got which volume is not in it.
type Outcome map[string]int

// outcomeOf counts.
func outcomeOf(c *cluster.Cluster) Outcome {
	end := Outcome{}
	for _, kind := range []string{"claim", "volume", "pod"} {
		for _, obj := range c.Server().List(resources[kind]) {
			end[strings.TrimSpace(kind+" "+phase(obj))]++
		}
	}
	if n := len(c.Server().List("volumeattachments")); n > 0 {
		end["attachment"] = n
	}
	return end
}

// String gives "2 claims Bound, 1 pod Running".
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
		return "nothing"
	}
	return strings.Join(words, ", ")
}

// DivergentOutcome says that a schedule ended otherwise than the ordinary course.
type DivergentOutcome struct{ Default, Actual Outcome }

// Error tells both ends.
func (o *DivergentOutcome) Error() string {
	return fmt.Sprintf("the world came to rest with %s; in the ordinary course with %s", o.Actual, o.Default)
}
