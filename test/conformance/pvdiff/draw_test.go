package pvdiff

import (
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/test/conformance/histories"
)

var (
	namespaces = []string{"other"}

	claimKeys       = []key{"default/c1", "default/c1", "default/c1", "default/c2", "default/c2", "default/c3", "other/c1"}
	provisionedKeys = append([]key{provisionedFor + "default/c1", provisionedFor + "default/c1", provisionedFor + "default/c2"}, volumeKeys...)
	volumeKeys      = []key{"v1", "v1", "v1", "v2", "v2", "v3", "v4"}
	classKeys       = []key{"k1", "k1", "k2"}
	podKeys         = []key{"default/p1", "default/p1", "default/p2"}

	provisioners = []string{"disk.example.com", "kubernetes.io/no-provisioner", "kubernetes.io/unknown", "kubernetes.io/aws-ebs", inTree, inTree, inTree, inTree}
)

func drawSpec(t *rapid.T, least, most int) spec {
	w := spec{
		size:  rapid.IntRange(least, most).Draw(t, "size"),
		modes: histories.OneOf("RWO", "RWO", "RWO", "RWO", "RWO", "RWO", "RWO", "ROX", "RWX", "RWOP", "RWO,ROX", "RWO,ROX,RWX").Draw(t, "modes"),
		block: histories.OneIn(t, 10, "block"),
	}
	if histories.OneIn(t, 10, "attributes") {
		w.vac = "gold"
	}
	return w
}

var drawClass = histories.OneOf("", "", "", "k1", "k1", "k2")

var drawClaimCreation = rapid.Custom(func(t *rapid.T) act {
	m := createClaim{key: histories.OneOf(claimKeys...).Draw(t, "claim"), spec: drawSpec(t, 1, 5)}
	m.class = histories.OneOf("-", "-", "", "k1", "k1", "k2").Draw(t, "class")
	if histories.OneIn(t, 12, "beta") {
		m.beta = histories.OneOf("k1", "k2").Draw(t, "beta class")
	}
	if histories.OneIn(t, 8, "selector") {
		m.selector = histories.OneOf("fast", "slow").Draw(t, "selected")
	}
	if histories.OneIn(t, 5, "pre-bound") {
		_, m.volume = histories.OneOf(volumeKeys...).Draw(t, "volume").split()
		m.marks = histories.OneOf("", "", "completed", "by-controller", "completed,by-controller").Draw(t, "marks")
	}
	m.finalizer = histories.OneIn(t, 12, "finalizer")
	m.source = histories.OneIn(t, 16, "copy")
	return m
})

var drawReservation = rapid.Custom(func(t *rapid.T) reservation {
	return reservation{histories.OneOf(claimKeys...).Draw(t, "claim"), histories.OneOf("name", "uid", "stale").Draw(t, "by")}
})

var drawVolumeCreation = rapid.Custom(func(t *rapid.T) act {
	m := createVolume{key: histories.OneOf(volumeKeys...).Draw(t, "volume"), spec: drawSpec(t, 2, 9), class: drawClass.Draw(t, "class")}
	m.policy = histories.OneOf(corev1.PersistentVolumeReclaimRetain, corev1.PersistentVolumeReclaimDelete,
		corev1.PersistentVolumeReclaimRecycle).Draw(t, "policy")
	m.source = histories.OneOf("csi", "hostPath", "hostPath", "nfs").Draw(t, "source")
	if histories.OneIn(t, 4, "label") {
		m.label = histories.OneOf("fast", "slow").Draw(t, "labelled")
	}
	if histories.OneIn(t, 4, "reserved") {
		m.reserved = drawReservation.Draw(t, "reservation")
		m.byController = histories.OneIn(t, 3, "by-controller")
	}
	if histories.OneIn(t, 5, "provisioned") {
		m.provisioner = histories.OneOf(provisioners...).Draw(t, "provisioner")
	}
	m.finalizer = histories.OneIn(t, 12, "finalizer")
	return m
})

var drawClaimEdit = rapid.Custom(func(t *rapid.T) act {
	e := editClaim{key: histories.OneOf(claimKeys...).Draw(t, "claim")}
	e.edit = histories.OneOf("label", "unprotect", "unfinalize", "forget completed", "forget completed", "forget by-controller",
		"mark completed", "mark by-controller", "volume", "class", "attributes", "select node", "select no node",
		"forget provisioner", "provisioner", "status phase", "status size", "status modes", "status attributes").Draw(t, "edit")
	switch e.edit {
	case "volume":
		e.value = string(histories.OneOf(volumeKeys...).Draw(t, "value"))
	case "class":
		e.value = drawClass.Draw(t, "value")
	case "attributes", "status attributes":
		e.value = histories.OneOf("gold", "silver").Draw(t, "value")
	case "provisioner":
		e.value = histories.OneOf(provisioners...).Draw(t, "value")
	case "status phase":
		e.value = string(histories.OneOf(corev1.ClaimPending, corev1.ClaimBound, corev1.ClaimLost).Draw(t, "value"))
	case "status size":
		e.value = histories.OneOf("1Gi", "5Gi").Draw(t, "value")
	case "status modes":
		e.value = histories.OneOf("RWO", "ROX").Draw(t, "value")
	}
	return e
})

var drawVolumeEdit = rapid.Custom(func(t *rapid.T) act {
	e := editVolume{key: histories.OneOf(provisionedKeys...).Draw(t, "volume")}
	e.edit = histories.OneOf("label", "free", "free", "forget uid", "forget by-controller", "mark by-controller", "policy", "policy", "class",
		"modes", "size", "attributes", "unprotect", "unfinalize", "provisioner", "finalizer", "migrated-to", "size before",
		"status phase", "status phase").Draw(t, "edit")
	switch e.edit {
	case "policy":
		e.value = histories.OneOf("Retain", "Delete", "Recycle").Draw(t, "value")
	case "class":
		e.value = drawClass.Draw(t, "value")
	case "label":
		e.value = histories.OneOf("fast", "slow").Draw(t, "value")
	case "modes":
		e.value = histories.OneOf("RWO", "ROX", "RWO,ROX").Draw(t, "value")
	case "size", "size before":
		e.value = histories.OneOf("2Gi", "8Gi").Draw(t, "value")
	case "attributes":
		e.value = histories.OneOf("gold", "silver").Draw(t, "value")
	case "provisioner":
		e.value = histories.OneOf(provisioners...).Draw(t, "value")
	case "finalizer":
		e.value = histories.OneOf(foreignFinalizer, "kubernetes.io/pv-controller", "external-provisioner.volume.kubernetes.io/finalizer").Draw(t, "value")
	case "migrated-to":
		e.value = "disk.example.com"
	case "status phase":
		e.value = string(histories.OneOf(corev1.VolumePending, corev1.VolumeAvailable, corev1.VolumeBound, corev1.VolumeReleased,
			corev1.VolumeFailed).Draw(t, "value"))
	}
	return e
})

var drawOtherAct = rapid.Custom(func(t *rapid.T) act {
	class, pod := histories.OneOf(classKeys...), histories.OneOf(podKeys...)
	switch histories.OneOf("class", "class", "class", "default", "no class", "pod", "pod", "end pod", "plugin", "plugin", "node").Draw(t, "other") {
	case "plugin":
		a := setOutcome{verb: histories.OneOf("provision", "delete", "recycle").Draw(t, "verb"), outcome: histories.OneOf("", "", "fails", "refused", "in use").Draw(t, "outcome")}
		if a.outcome == "in use" && a.verb != "delete" {
			a.outcome = "fails"
		}
		return a
	case "node":
		return createNode{}
	case "class":
		return createClass{
			class.Draw(t, "class"), histories.OneOf(provisioners...).Draw(t, "provisioner"),
			histories.OneIn(t, 3, "delayed"), histories.OneIn(t, 3, "default"), histories.OneIn(t, 4, "retain"), histories.OneIn(t, 6, "mount options"),
		}
	case "default":
		return setDefault{class.Draw(t, "class"), !histories.OneIn(t, 3, "off")}
	case "no class":
		return deleteClass{class.Draw(t, "class")}
	case "pod":
		return createPod{pod.Draw(t, "pod"), histories.OneOf(claimKeys[:3]...).Draw(t, "claim"), histories.OneIn(t, 2, "scheduled")}
	default:
		return endPod{pod.Draw(t, "pod"), histories.OneOf("scheduled", "succeeded", "deleted").Draw(t, "how")}
	}
})

// drawAct draws an act other than a restart.
var drawAct = rapid.Custom(func(t *rapid.T) act {
	switch histories.OneOf("claim", "claim", "claim", "volume", "volume", "volume", "edit claim", "edit volume", "edit volume",
		"delete claim", "delete claim", "delete volume", "provision", "reserve", "other", "other", "other").Draw(t, "act") {
	case "claim":
		return drawClaimCreation.Draw(t, "kind")
	case "volume":
		return drawVolumeCreation.Draw(t, "kind")
	case "edit claim":
		return drawClaimEdit.Draw(t, "kind")
	case "edit volume":
		return drawVolumeEdit.Draw(t, "kind")
	case "delete claim":
		return deleteClaim{histories.OneOf(claimKeys...).Draw(t, "claim"), histories.OneIn(t, 4, "protected")}
	case "delete volume":
		return deleteVolume{histories.OneOf(provisionedKeys...).Draw(t, "volume"), histories.OneIn(t, 4, "protected")}
	case "provision":
		return provisionVolume{histories.OneOf(volumeKeys...).Draw(t, "volume"), histories.OneOf(claimKeys...).Draw(t, "claim")}
	case "reserve":
		return reserveVolume{histories.OneOf(provisionedKeys...).Draw(t, "volume"), drawReservation.Draw(t, "reservation"), histories.OneIn(t, 2, "scheduler")}
	default:
		return drawOtherAct.Draw(t, "kind")
	}
})

var drawFault = rapid.Custom(func(t *rapid.T) fault {
	f := fault{kind: histories.OneOf(sim.FaultConflict, sim.FaultRefused, sim.FaultLost).Draw(t, "kind"), nth: rapid.IntRange(1, 2).Draw(t, "nth")}
	f.verb = histories.OneOf("update", "update/status", "get", "create", "delete").Draw(t, "verb")
	f.often = histories.OneIn(t, 8, "often")
	if f.verb == "create" || f.verb == "delete" {
		return f
	}
	if histories.OneIn(t, 2, "claim") {
		f.object = "persistentvolumeclaims/" + string(histories.OneOf(claimKeys...).Draw(t, "claim"))
	} else {
		f.object = "persistentvolumes/" + string(histories.OneOf(volumeKeys...).Draw(t, "volume"))
	}
	if f.verb == "get" {
		f.kind = sim.FaultRefused
	}
	return f
})

// drawRestart draws a restart. The acts meanwhile are about one object: with more, the order in
// which the controller sees them would matter.
var drawRestart = rapid.Custom(func(t *rapid.T) act {
	switch histories.OneOf("nothing", "act", "act", "claim again", "volume again").Draw(t, "meanwhile") {
	case "nothing":
		return restart{}
	case "act":
		return restart{[]act{drawAct.Draw(t, "act")}}
	case "claim again":
		again := drawClaimCreation.Draw(t, "again").(createClaim)
		return restart{[]act{deleteClaim{key: again.key}, again}}
	default:
		again := drawVolumeCreation.Draw(t, "again").(createVolume)
		return restart{[]act{deleteVolume{key: again.key}, again}}
	}
})

// drawStep draws a step.
var drawStep = rapid.Custom(func(t *rapid.T) step {
	var s step
	if histories.OneIn(t, 12, "restart") {
		s.act = drawRestart.Draw(t, "kind")
	} else {
		s.act = drawAct.Draw(t, "act")
	}
	if histories.OneIn(t, 4, "faulty") {
		s.fault = drawFault.Draw(t, "fault")
	}
	return s
})

// drawHistory draws a history.
var drawHistory = rapid.Custom(func(t *rapid.T) history { return histories.DrawSteps(t, drawStep, 12, 8) })
