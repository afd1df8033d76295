package addiff

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/sim"
)

// The generators take what is listed first when they shrink; what is listed more than once is drawn more often.

func one[T any](of ...T) *rapid.Generator[T] { return rapid.SampledFrom(of) }

// rarely is true one time in n.
func rarely(t *rapid.T, n int, label string) bool {
	return rapid.IntRange(0, n-1).Draw(t, label) == n-1
}

var (
	drawPod  = one("p1", "p1", "p2", "p2", "p3")
	drawNode = one("n1", "n1", "n1", "n2", "n2", "n2", "n3")
	drawDisk = rapid.Custom(func(t *rapid.T) string {
		if rapid.IntRange(0, 199).Draw(t, "odd") == 137 {
			return "odd"
		}
		return one("rwo1", "rwo1", "rwo1", "rwo1", "rwo1", "rwo2", "rwx", "rwx", "rwx", "rwop", "rwop", "late", "late").Draw(t, "disk")
	})
)

var runPods = rapid.Custom(func(t *rapid.T) act {
	r := runPod{pod: drawPod.Draw(t, "pod"), node: drawNode.Draw(t, "node"), disks: []string{drawDisk.Draw(t, "disk")}}
	if rarely(t, 10, "not scheduled") {
		r.node = ""
	}
	for len(r.disks) < 3 && rarely(t, 3, "another") {
		r.disks = append(r.disks, drawDisk.Draw(t, "disk"))
	}
	slices.Sort(r.disks)
	r.disks = slices.Compact(r.disks)
	return r
})

var nodeActs = rapid.Custom(func(t *rapid.T) act {
	node := drawNode.Draw(t, "node")
	switch one("kubelet", "kubelet", "kubelet", "ready", "ready", "fails", "fails", "fails", "taint", "goes", "goes", "comes", "comes",
		"managed").Draw(t, "it") {
	case "fails":
		return fail{node, rarely(t, 4, "is back")}
	case "kubelet":
		return kubelet{node, one(works, works, isDown, isHanging, isHanging).Draw(t, "how")}
	case "ready":
		return ready{node, one(corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown).Draw(t, "status")}
	case "taint":
		return taint{node, !rarely(t, 3, "no longer")}
	case "goes":
		return dropNode{node}
	case "comes":
		return makeNode{node: node, unmanaged: rarely(t, 3, "unmanaged")}
	default:
		return manage{node}
	}
})

var attacherActs = rapid.Custom(func(t *rapid.T) act {
	if rarely(t, 12, "somebody") {
		return dropAttachment{drawDisk.Draw(t, "disk"), drawNode.Draw(t, "node")}
	}
	return turn{one("attach", "detach").Draw(t, "verb"), one("", "", errs, isSlow, hangs).Draw(t, "outcome")}
})

var volumeActs = rapid.Custom(func(t *rapid.T) act {
	disk := drawDisk.Draw(t, "disk")
	switch one("bind", "bind", "claim goes", "volume goes", "driver", "driver").Draw(t, "it") {
	case "bind":
		return bind{disk}
	case "claim goes":
		return dropClaim{disk}
	case "volume goes":
		return dropVolume{disk}
	default:
		return driver{one("required", "", "not required").Draw(t, "attach")}
	}
})

// acts draws any act but a restart.
var acts = rapid.Custom(func(t *rapid.T) act {
	switch one("pod", "pod", "pod", "pod", "pod ends", "pod ends", "pod ends", "node", "node", "node", "attacher", "attacher",
		"volume", "schedule", "nothing").Draw(t, "act") {
	case "pod":
		return runPods.Draw(t, "it")
	case "pod ends":
		return endPod{drawPod.Draw(t, "pod"), one(isDeleted, isDeleted, isDeleted, succeeds, fails, isLeaving, isStopped).Draw(t, "how")}
	case "node":
		return nodeActs.Draw(t, "it")
	case "attacher":
		return attacherActs.Draw(t, "it")
	case "volume":
		return volumeActs.Draw(t, "it")
	case "schedule":
		return schedule{drawPod.Draw(t, "pod"), drawNode.Draw(t, "node")}
	default:
		return nothing{}
	}
})

var drawFault = rapid.Custom(func(t *rapid.T) fault {
	f := fault{request: one("create volumeattachments", "delete volumeattachments", "patch/status nodes", "get nodes").Draw(t, "request")}
	f.kind = one(sim.FaultRefused, sim.FaultLost, sim.FaultConflict).Draw(t, "kind")
	if f.request == "get nodes" {
		f.kind = sim.FaultRefused
	}
	return f
})

// steps draws one step.
var steps = rapid.Custom(func(t *rapid.T) step {
	var s step
	if rarely(t, 12, "restart") {
		r := restart{}
		if rarely(t, 4, "patience") {
			r.meanwhile = append(r.meanwhile, patient{!rarely(t, 3, "no longer")})
		}
		for len(r.meanwhile) < 2 && rarely(t, 2, "meanwhile") {
			r.meanwhile = append(r.meanwhile, acts.Draw(t, "act"))
		}
		s.act = r
	} else {
		s.act = acts.Draw(t, "act")
	}
	if rarely(t, 8, "goes wrong") {
		s.fault = drawFault.Draw(t, "fault")
	}
	s.pause = one(rest, rest, rest, short, long).Draw(t, "pause")
	switch s.act.(type) {
	case driver, bind, makeNode, manage: // what is to be done about pods upstream sees up to three minutes later
		s.pause, s.fault = max(s.pause, rest), fault{}
	}
	return s
})

// drawHistory draws a whole history, of some scenes of some steps each: rapid's lists are short, and shrink well.
var drawHistory = rapid.Custom(func(t *rapid.T) history {
	scenes := rapid.SliceOfN(rapid.SliceOfN(steps, 1, 8), 1, 5).Draw(t, "scenes")
	return slices.Concat(scenes...)
})
