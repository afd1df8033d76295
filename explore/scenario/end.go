package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/volsim/volsim/cluster"
)

// End is how things stand when a world has come to rest: how many claims, volumes and pods there are in each phase, how many
// attachments, and how many volumes the back end holds. Which claim got which volume is not in it.
type End map[string]int

// endOf counts.
func endOf(c *cluster.Cluster) End {
	end := End{}
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
func (e End) String() string {
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

// OtherEnd says that a schedule ended otherwise than the ordinary course.
type OtherEnd struct{ Ordinary, Is End }

// Error tells both ends.
func (o *OtherEnd) Error() string {
	return fmt.Sprintf("the world came to rest with %s; in the ordinary course with %s", o.Is, o.Ordinary)
}
