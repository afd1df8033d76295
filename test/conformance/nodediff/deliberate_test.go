package nodediff

import (
	"slices"
	"strings"

	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/histories/controllers"
)

type (
	delta      = histories.Delta[step, *world]
	difference = histories.Difference[step, *world]
)

// isEvictingTaint reports whether a line has a NoExecute taint of the node lifecycle controller.
func isEvictingTaint(line string) bool {
	return strings.HasPrefix(line, "taint of ") && strings.Contains(line, ":NoExecute") &&
		(strings.Contains(line, ": node.kubernetes.io/unreachable=") || strings.Contains(line, ": node.kubernetes.io/not-ready="))
}

// deliberate are the differences between the node lifecycle controllers.
var deliberate = []difference{
	{
		Name: "upstream, when it starts, removes the taints, and adds them again at its rate",
		Explains: func(d delta, _, line string) bool {
			_, restarted := d.History[len(d.History)-1].Act.(controllers.Restart[*world])
			return restarted && isEvictingTaint(line)
		},
	},
	{
		Name: "upstream spends a token on a node that was deleted while it waited",
		Explains: func(d delta, _, line string) bool {
			_, deleted := d.History[len(d.History)-1].Act.(deleteNodes)
			return deleted && (isEvictingTaint(line) || strings.HasPrefix(line, "a node of zone "))
		},
	},
	{
		Name: "upstream keeps a taint that replaced another when the last node became unready",
		Explains: func(d delta, _, line string) bool {
			isReady := func(line string) bool { return strings.Contains(line, ": Ready=True ") }
			return isEvictingTaint(line) && slices.Contains(d.Upstream, line) && !slices.ContainsFunc(d.Ours, isReady)
		},
	},
}
