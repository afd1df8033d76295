package cluster

import (
	"strings"

	"github.com/volsim/volsim/sim/trace"
)

// isLeaseRenewal reports whether a record is about a kubelet that renews the Lease of its node, about the
// node lifecycle controller, which looks whether it has, about a leader that renews its Lease, or about a
// candidate that looks at it. In a live world that has nothing to do, such records would replace all others.
func isLeaseRenewal(r trace.Record) bool {
	process, task, _ := strings.Cut(r.Task, "/")
	if process == "nodelifecycle" {
		return strings.HasPrefix(task, "nodelifecycle deadlines")
	}
	if r.Err != nil {
		return false
	}
	switch task {
	case "leader lease":
		return r.Kind == trace.KindWork || r.Verb == "update"
	case "leader candidacy":
		return r.Kind == trace.KindWork || r.Verb == "get"
	case "leader lease retry", "leader candidacy retry":
		return true
	}
	if !strings.HasPrefix(process, "kubelet(") {
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
