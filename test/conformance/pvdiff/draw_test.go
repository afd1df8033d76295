package pvdiff

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/sim"
)

var (
	namespaces = []string{"other"}

	claimKeys  = []key{"default/c1", "default/c1", "default/c1", "default/c2", "default/c2", "default/c3", "other/c1"}
	madeKeys   = append([]key{"made for default/c1", "made for default/c1", "made for default/c2"}, volumeKeys...)
	volumeKeys = []key{"v1", "v1", "v1", "v2", "v2", "v3", "v4"}
	classKeys  = []key{"k1", "k1", "k2"}
	podKeys    = []key{"default/p1", "default/p1", "default/p2"}

	provisioners = []string{"disk.example.com", "kubernetes.io/no-provisioner", "kubernetes.io/unknown", "kubernetes.io/aws-ebs", inTree, inTree, inTree, inTree}
)

// The generators take what is listed first when they shrink; what is listed more than once is drawn more often.

func one[T any](of ...T) *rapid.Generator[T] { return rapid.SampledFrom(of) }

// rarely is true one time in n.
func rarely(t *rapid.T, n int, label string) bool {
	return rapid.IntRange(0, n-1).Draw(t, label) == n-1
}

func drawWant(t *rapid.T, least, most int) want {
	w := want{
		size:  rapid.IntRange(least, most).Draw(t, "size"),
		modes: one("RWO", "RWO", "RWO", "RWO", "RWO", "RWO", "RWO", "ROX", "RWX", "RWOP", "RWO,ROX", "RWO,ROX,RWX").Draw(t, "modes"),
		block: rarely(t, 10, "block"),
	}
	if rarely(t, 10, "attributes") {
		w.vac = "gold"
	}
	return w
}

var drawClass = one("", "", "", "k1", "k1", "k2")

var makeClaims = rapid.Custom(func(t *rapid.T) act {
	m := makeClaim{key: one(claimKeys...).Draw(t, "claim"), want: drawWant(t, 1, 5)}
	m.class = one("-", "-", "", "k1", "k1", "k2").Draw(t, "class")
	if rarely(t, 12, "beta") {
		m.beta = one("k1", "k2").Draw(t, "beta class")
	}
	if rarely(t, 8, "selector") {
		m.selector = one("fast", "slow").Draw(t, "selected")
	}
	if rarely(t, 5, "pre-bound") {
		_, m.volume = one(volumeKeys...).Draw(t, "volume").split()
		m.marks = one("", "", "completed", "by-controller", "completed,by-controller").Draw(t, "marks")
	}
	m.finalizer = rarely(t, 12, "finalizer")
	m.source = rarely(t, 16, "copy")
	return m
})

var reservations = rapid.Custom(func(t *rapid.T) reservation {
	return reservation{one(claimKeys...).Draw(t, "claim"), one("name", "uid", "stale").Draw(t, "by")}
})

var makeVolumes = rapid.Custom(func(t *rapid.T) act {
	m := makeVolume{key: one(volumeKeys...).Draw(t, "volume"), want: drawWant(t, 2, 9), class: drawClass.Draw(t, "class")}
	m.policy = one(corev1.PersistentVolumeReclaimRetain, corev1.PersistentVolumeReclaimDelete,
		corev1.PersistentVolumeReclaimRecycle).Draw(t, "policy")
	m.source = one("csi", "hostPath", "hostPath", "nfs").Draw(t, "source")
	if rarely(t, 4, "label") {
		m.label = one("fast", "slow").Draw(t, "labelled")
	}
	if rarely(t, 4, "reserved") {
		m.reserved = reservations.Draw(t, "reservation")
		m.byHand = rarely(t, 3, "by-controller")
	}
	if rarely(t, 5, "provisioned") {
		m.provisioner = one(provisioners...).Draw(t, "provisioner")
	}
	m.finalizer = rarely(t, 12, "finalizer")
	return m
})

var editClaims = rapid.Custom(func(t *rapid.T) act {
	e := editClaim{key: one(claimKeys...).Draw(t, "claim")}
	e.edit = one("label", "unprotect", "unfinalize", "forget completed", "forget completed", "forget by-controller",
		"mark completed", "mark by-controller", "volume", "class", "attributes", "select node", "select no node",
		"forget provisioner", "provisioner", "status phase", "status size", "status modes", "status attributes").Draw(t, "edit")
	switch e.edit {
	case "volume":
		e.value = string(one(volumeKeys...).Draw(t, "value"))
	case "class":
		e.value = drawClass.Draw(t, "value")
	case "attributes", "status attributes":
		e.value = one("gold", "silver").Draw(t, "value")
	case "provisioner":
		e.value = one(provisioners...).Draw(t, "value")
	case "status phase":
		e.value = string(one(corev1.ClaimPending, corev1.ClaimBound, corev1.ClaimLost).Draw(t, "value"))
	case "status size":
		e.value = one("1Gi", "5Gi").Draw(t, "value")
	case "status modes":
		e.value = one("RWO", "ROX").Draw(t, "value")
	}
	return e
})

var editVolumes = rapid.Custom(func(t *rapid.T) act {
	e := editVolume{key: one(madeKeys...).Draw(t, "volume")}
	e.edit = one("label", "free", "free", "forget uid", "forget by-controller", "mark by-controller", "policy", "policy", "class",
		"modes", "size", "attributes", "unprotect", "unfinalize", "provisioner", "finalizer", "migrated-to", "size before",
		"status phase", "status phase").Draw(t, "edit")
	switch e.edit {
	case "policy":
		e.value = one("Retain", "Delete", "Recycle").Draw(t, "value")
	case "class":
		e.value = drawClass.Draw(t, "value")
	case "label":
		e.value = one("fast", "slow").Draw(t, "value")
	case "modes":
		e.value = one("RWO", "ROX", "RWO,ROX").Draw(t, "value")
	case "size", "size before":
		e.value = one("2Gi", "8Gi").Draw(t, "value")
	case "attributes":
		e.value = one("gold", "silver").Draw(t, "value")
	case "provisioner":
		e.value = one(provisioners...).Draw(t, "value")
	case "finalizer":
		e.value = one(foreignFinalizer, "kubernetes.io/pv-controller", "external-provisioner.volume.kubernetes.io/finalizer").Draw(t, "value")
	case "migrated-to":
		e.value = "disk.example.com"
	case "status phase":
		e.value = string(one(corev1.VolumePending, corev1.VolumeAvailable, corev1.VolumeBound, corev1.VolumeReleased,
			corev1.VolumeFailed).Draw(t, "value"))
	}
	return e
})

var otherActs = rapid.Custom(func(t *rapid.T) act {
	class, pod := one(classKeys...), one(podKeys...)
	switch one("class", "class", "class", "default", "no class", "pod", "pod", "pod ends", "plugin", "plugin", "node").Draw(t, "other") {
	case "plugin":
		a := turn{verb: one("provision", "delete", "recycle").Draw(t, "verb"), outcome: one("", "", "fails", "refused", "in use").Draw(t, "outcome")}
		if a.outcome == "in use" && a.verb != "delete" {
			a.outcome = "fails"
		}
		return a
	case "node":
		return makeNode{}
	case "class":
		return makeClass{
			class.Draw(t, "class"), one(provisioners...).Draw(t, "provisioner"),
			rarely(t, 3, "delayed"), rarely(t, 3, "default"), rarely(t, 4, "retain"), rarely(t, 6, "mount options"),
		}
	case "default":
		return setDefault{class.Draw(t, "class"), !rarely(t, 3, "no longer")}
	case "no class":
		return deleteClass{class.Draw(t, "class")}
	case "pod":
		return makePod{pod.Draw(t, "pod"), one(claimKeys[:3]...).Draw(t, "claim"), rarely(t, 2, "scheduled")}
	default:
		return endPod{pod.Draw(t, "pod"), one("scheduled", "succeeded", "deleted").Draw(t, "how")}
	}
})

// acts draws any act but a restart.
var acts = rapid.Custom(func(t *rapid.T) act {
	switch one("claim", "claim", "claim", "volume", "volume", "volume", "edit claim", "edit volume", "edit volume",
		"delete claim", "delete claim", "delete volume", "provision", "reserve", "other", "other", "other").Draw(t, "act") {
	case "claim":
		return makeClaims.Draw(t, "it")
	case "volume":
		return makeVolumes.Draw(t, "it")
	case "edit claim":
		return editClaims.Draw(t, "it")
	case "edit volume":
		return editVolumes.Draw(t, "it")
	case "delete claim":
		return deleteClaim{one(claimKeys...).Draw(t, "claim"), rarely(t, 4, "protected")}
	case "delete volume":
		return deleteVolume{one(madeKeys...).Draw(t, "volume"), rarely(t, 4, "protected")}
	case "provision":
		return provision{one(volumeKeys...).Draw(t, "volume"), one(claimKeys...).Draw(t, "claim")}
	case "reserve":
		return reserve{one(madeKeys...).Draw(t, "volume"), reservations.Draw(t, "reservation"), rarely(t, 2, "scheduler")}
	default:
		return otherActs.Draw(t, "it")
	}
})

var drawFault = rapid.Custom(func(t *rapid.T) fault {
	f := fault{kind: one(sim.FaultConflict, sim.FaultRefused, sim.FaultLost).Draw(t, "kind"), nth: rapid.IntRange(1, 2).Draw(t, "nth")}
	f.verb = one("update", "update/status", "get", "create", "delete").Draw(t, "verb")
	f.often = rarely(t, 8, "often")
	if f.verb == "create" || f.verb == "delete" {
		return f
	}
	if rarely(t, 2, "claim") {
		f.object = "persistentvolumeclaims/" + string(one(claimKeys...).Draw(t, "claim"))
	} else {
		f.object = "persistentvolumes/" + string(one(volumeKeys...).Draw(t, "volume"))
	}
	if f.verb == "get" {
		f.kind = sim.FaultRefused
	}
	return f
})

// restarts draws a restart. What is done meanwhile is about one object: with more, it would matter which of them the
// controller sees first.
var restarts = rapid.Custom(func(t *rapid.T) act {
	switch one("nothing", "act", "act", "claim again", "volume again").Draw(t, "meanwhile") {
	case "nothing":
		return restart{}
	case "act":
		return restart{[]act{acts.Draw(t, "act")}}
	case "claim again":
		again := makeClaims.Draw(t, "again").(makeClaim)
		return restart{[]act{deleteClaim{key: again.key}, again}}
	default:
		again := makeVolumes.Draw(t, "again").(makeVolume)
		return restart{[]act{deleteVolume{key: again.key}, again}}
	}
})

// steps draws one step.
var steps = rapid.Custom(func(t *rapid.T) step {
	var s step
	if rarely(t, 12, "restart") {
		s.act = restarts.Draw(t, "it")
	} else {
		s.act = acts.Draw(t, "act")
	}
	if rarely(t, 4, "goes wrong") {
		s.fault = drawFault.Draw(t, "fault")
	}
	return s
})

// drawHistory draws a whole history, of some scenes of some steps each: rapid's lists are short, and shrink well.
var drawHistory = rapid.Custom(func(t *rapid.T) history {
	scenes := rapid.SliceOfN(rapid.SliceOfN(steps, 1, 12), 1, 8).Draw(t, "scenes")
	return slices.Concat(scenes...)
})
