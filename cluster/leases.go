package cluster

import (
	"strings"

	"github.com/volsim/volsim/sim/trace"
)

// isLeaseRenewal reports whether a record is about a kubelet that renews the Lease of its node, or
// about the node lifecycle controller, which looks whether it has. In a live world that has nothing to
// do, such records would replace all others.
func isLeaseRenewal(r trace.Record) bool {
	process, task, _ := strings.Cut(r.Task, "/")
	if process == "nodelifecycle" {
		return strings.HasPrefix(task, "nodelifecycle deadlines")
	}
	if r.Err != nil || !strings.HasPrefix(process, "kubelet(") {
		return false
	}
	switch task {
	case "node lease":
		return r.Kind == trace.KindWork || r.Verb == "update"
	case "node lease retry":
		return true
	default:
		return false
	}
}
