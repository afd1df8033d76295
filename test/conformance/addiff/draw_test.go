package addiff

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/test/conformance/histories"
)

var (
	drawPod  = histories.OneOf("p1", "p1", "p2", "p2", "p3")
	drawNode = histories.OneOf("n1", "n1", "n1", "n2", "n2", "n2", "n3")
	drawDisk = rapid.Custom(func(t *rapid.T) string {
		if rapid.IntRange(0, 199).Draw(t, "odd") == 137 {
			return "odd"
		}
		return histories.OneOf("rwo1", "rwo1", "rwo1", "rwo1", "rwo1", "rwo2", "rwx", "rwx", "rwx", "rwop", "rwop", "late", "late").Draw(t, "disk")
	})
)

var drawPodCreation = rapid.Custom(func(t *rapid.T) act {
	r := createPod{pod: drawPod.Draw(t, "pod"), node: drawNode.Draw(t, "node"), disks: []string{drawDisk.Draw(t, "disk")}}
	if histories.OneIn(t, 10, "not scheduled") {
		r.node = ""
	}
	for len(r.disks) < 3 && histories.OneIn(t, 3, "another") {
		r.disks = append(r.disks, drawDisk.Draw(t, "disk"))
	}
	slices.Sort(r.disks)
	r.disks = slices.Compact(r.disks)
	return r
})

var drawNodeAct = rapid.Custom(func(t *rapid.T) act {
	node := drawNode.Draw(t, "node")
	switch histories.OneOf("kubelet", "kubelet", "kubelet", "ready", "ready", "fail", "fail", "fail", "taint", "delete", "delete", "create", "create",
		"managed").Draw(t, "kind") {
	case "fail":
		return failNode{node, histories.OneIn(t, 4, "recovers")}
	case "kubelet":
		return setKubelet{node, histories.OneOf(works, works, isDown, isHanging, isHanging).Draw(t, "how")}
	case "ready":
		return setReady{node, histories.OneOf(corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown).Draw(t, "status")}
	case "taint":
		return taintNode{node, !histories.OneIn(t, 3, "off")}
	case "delete":
		return deleteNode{node}
	case "create":
		return createNode{node: node, unmanaged: histories.OneIn(t, 3, "unmanaged")}
	default:
		return manageNode{node}
	}
})

var drawAttacherAct = rapid.Custom(func(t *rapid.T) act {
	if histories.OneIn(t, 12, "another client") {
		return deleteAttachment{drawDisk.Draw(t, "disk"), drawNode.Draw(t, "node")}
	}
	return setAttacher{histories.OneOf("attach", "detach").Draw(t, "verb"), histories.OneOf("", "", errs, isSlow, hangs).Draw(t, "outcome")}
})

var drawVolumeAct = rapid.Custom(func(t *rapid.T) act {
	disk := drawDisk.Draw(t, "disk")
	switch histories.OneOf("bind", "bind", "delete claim", "delete volume", "driver", "driver").Draw(t, "kind") {
	case "bind":
		return bindClaim{disk}
	case "delete claim":
		return deleteClaim{disk}
	case "delete volume":
		return deleteVolume{disk}
	default:
		return setDriver{histories.OneOf("required", "", "not required").Draw(t, "attach")}
	}
})

// drawAct draws an act other than a restart.
var drawAct = rapid.Custom(func(t *rapid.T) act {
	switch histories.OneOf("pod", "pod", "pod", "pod", "end pod", "end pod", "end pod", "node", "node", "node", "attacher", "attacher",
		"volume", "bind pod", "nothing").Draw(t, "act") {
	case "pod":
		return drawPodCreation.Draw(t, "kind")
	case "end pod":
		return endPod{drawPod.Draw(t, "pod"), histories.OneOf(isDeleted, isDeleted, isDeleted, succeeds, fails, isTerminating, isTerminated).Draw(t, "how")}
	case "node":
		return drawNodeAct.Draw(t, "kind")
	case "attacher":
		return drawAttacherAct.Draw(t, "kind")
	case "volume":
		return drawVolumeAct.Draw(t, "kind")
	case "bind pod":
		return bindPod{drawPod.Draw(t, "pod"), drawNode.Draw(t, "node")}
	default:
		return nothing{}
	}
})

var drawFault = rapid.Custom(func(t *rapid.T) histories.Fault {
	f := histories.Fault{Request: histories.OneOf("create volumeattachments", "delete volumeattachments", "patch/status nodes", "get nodes").Draw(t, "request")}
	f.Kind = histories.OneOf(sim.FaultRefused, sim.FaultLost, sim.FaultConflict).Draw(t, "kind")
	if f.Request == "get nodes" {
		f.Kind = sim.FaultRefused
	}
	return f
})

// drawStep draws a step.
var drawStep = rapid.Custom(func(t *rapid.T) step {
	var s step
	if histories.OneIn(t, 12, "restart") {
		r := restart{}
		if histories.OneIn(t, 4, "force detach") {
			r.meanwhile = append(r.meanwhile, disableForceDetach{!histories.OneIn(t, 3, "off")})
		}
		for len(r.meanwhile) < 2 && histories.OneIn(t, 2, "meanwhile") {
			r.meanwhile = append(r.meanwhile, drawAct.Draw(t, "act"))
		}
		s.act = r
	} else {
		s.act = drawAct.Draw(t, "act")
	}
	if histories.OneIn(t, 8, "faulty") {
		s.fault = drawFault.Draw(t, "fault")
	}
	s.pause = histories.OneOf(rest, rest, rest, short, long).Draw(t, "pause")
	switch s.act.(type) {
	case setDriver, bindClaim, createNode, manageNode: // upstream's populator notices up to three minutes later
		s.pause, s.fault = max(s.pause, rest), histories.Fault{}
	}
	return s
})

// drawHistory draws a history.
var drawHistory = rapid.Custom(func(t *rapid.T) history { return histories.DrawSteps(t, drawStep, 8, 5) })
