package snapdiff

import (
	"pgregory.net/rapid"

	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/histories/storeddriver"
)

func drawSnapshotName(t *rapid.T) string { return histories.OneOf("one", "two").Draw(t, "snapshot") }

func drawClaimName(t *rapid.T) string { return histories.OneOf("data", "data", "log").Draw(t, "claim") }

func drawContentName(t *rapid.T) string { return histories.OneOf("old-1", "old-2").Draw(t, "content") }

func drawClassName(t *rapid.T) string { return histories.OneOf("gold", "iron").Draw(t, "class") }

// drawClassOf draws the class of a snapshot or a content.
func drawClassOf(t *rapid.T) string {
	return histories.OneOf("", "", "gold", "iron", "lost").Draw(t, "of class")
}

func drawPolicy(t *rapid.T) snapshotapi.DeletionPolicy {
	return histories.OneOf(snapshotapi.Delete, snapshotapi.Delete, snapshotapi.Retain).Draw(t, "policy")
}

func drawDriver(t *rapid.T) string {
	return histories.OneOf(driverName, driverName, driverName, driverName, otherDriver).Draw(t, "driver")
}

func drawVolume(t *rapid.T) string {
	return histories.OneOf(own, own, own, own, block, foreign, local, absent, unbound, unbound).Draw(t, "volume")
}

var drawClass = rapid.Custom(func(t *rapid.T) act {
	return createClass{
		name: drawClassName(t), isDefault: rapid.Bool().Draw(t, "default"), driver: drawDriver(t), policy: drawPolicy(t),
		secret: histories.OneOf(noSecret, noSecret, oneSecret, oneSecret, badSecret).Draw(t, "secret"),
	}
})

var drawSnapshot = rapid.Custom(func(t *rapid.T) act {
	s := createSnapshot{name: drawSnapshotName(t), claim: drawClaimName(t), class: drawClassOf(t)}
	if histories.OneIn(t, 4, "existing") {
		s.content = drawContentName(t)
	}
	return s
})

var drawContent = rapid.Custom(func(t *rapid.T) act {
	c := createContent{
		name: drawContentName(t), snapshot: drawSnapshotName(t), policy: drawPolicy(t), driver: drawDriver(t),
		handle: histories.OneOf(oldHandle, oldHandle, "lost").Draw(t, "handle"), ofVolume: histories.OneIn(t, 10, "of a volume"),
		class: drawClassOf(t),
	}
	if histories.OneIn(t, 10, "uid") {
		c.uid = "another"
	}
	return c
})

var drawDriverState = rapid.Custom(func(t *rapid.T) act {
	if histories.OneIn(t, 3, "readiness") {
		return setDriver{keyReady, histories.OneOf("true", "false").Draw(t, "ready")}
	}
	return setDriver{histories.OneOf(callCreate, callCreate, callDelete, callList).Draw(t, "call"), storeddriver.DrawOutcome(t)}
})

var drawAct = rapid.Custom(func(t *rapid.T) act {
	switch rapid.IntRange(0, 24).Draw(t, "act") {
	case 0, 1, 2, 3, 4:
		return drawSnapshot.Draw(t, "snapshot")
	case 5, 6, 7:
		return deleteSnapshot{drawSnapshotName(t)}
	case 8, 9:
		return createClaim{name: drawClaimName(t), volume: drawVolume(t)}
	case 10:
		return createClaim{name: "restored", volume: unbound, restores: drawSnapshotName(t)}
	case 11:
		return bind{histories.OneOf("restored", "data", "log").Draw(t, "bound"), own}
	case 12, 13:
		return deleteClaim{histories.OneOf("data", "log", "restored").Draw(t, "deleted")}
	case 14, 15:
		return drawClass.Draw(t, "class")
	case 16:
		return deleteClass{drawClassName(t)}
	case 17:
		return setDefault{drawClassName(t), rapid.Bool().Draw(t, "default")}
	case 18:
		return setSecret{rapid.Bool().Draw(t, "exists")}
	case 19, 20:
		return drawContent.Draw(t, "content")
	case 21, 22:
		return edit{
			rapid.IntRange(0, 2).Draw(t, "number"),
			histories.OneOf(setRetain, setDelete, allowMode, remove, remove, release).Draw(t, "edit"),
		}
	default:
		return drawDriverState.Draw(t, "driver")
	}
})

// requests are those of the controllers that may fail.
var requests = []string{
	"create volumesnapshotcontents", "patch volumesnapshotcontents", "patch/status volumesnapshotcontents", "delete volumesnapshotcontents",
	"get volumesnapshotcontents", "update volumesnapshots", statusWrites, "patch volumesnapshots", "update persistentvolumeclaims",
	"get persistentvolumes", "get secrets",
}

// statusWrites are the writes of the status of snapshots. Upstream's controller repeats them without end, and
// without time that passes, if each has its effect and fails: it writes the failure into the status.
const statusWrites = "update/status volumesnapshots"

var drawFault = rapid.Custom(func(t *rapid.T) histories.Fault {
	fault := histories.Fault{
		Kind:    histories.OneOf(sim.FaultRefused, sim.FaultLost, sim.FaultConflict).Draw(t, "fault"),
		Request: histories.OneOf(requests...).Draw(t, "request"),
	}
	if fault.Request == statusWrites && fault.Kind == sim.FaultLost {
		fault.Kind = sim.FaultRefused
	}
	return fault
})

var drawStep = rapid.Custom(func(t *rapid.T) step {
	s := step{Act: drawAct.Draw(t, "act")}
	if histories.OneIn(t, 10, "restart") {
		s.Act = restart{Meanwhile: s.Act}
	}
	if histories.OneIn(t, 12, "fails") {
		s.Fault = drawFault.Draw(t, "fault")
	}
	return s
})

// drawHistory begins with a world in which snapshots are taken.
var drawHistory = rapid.Custom(func(t *rapid.T) history {
	begin := history{
		{Act: createClass{"gold", true, driverName, snapshotapi.Delete, noSecret}},
		{Act: createClaim{name: "data", volume: own}},
	}[histories.OneOf(0, 2, 0).Draw(t, "begin"):]
	return append(begin, histories.DrawSteps(t, drawStep, 6, 3)...)
})
