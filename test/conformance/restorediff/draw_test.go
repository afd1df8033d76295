package restorediff

import (
	"pgregory.net/rapid"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/histories/storeddriver"
)

// drawOften draws true three times of four.
func drawOften(t *rapid.T, label string) bool { return !histories.OneIn(t, 4, label) }

func drawDriver(t *rapid.T) string {
	return histories.OneOf(driverName, driverName, driverName, otherDriver).Draw(t, "driver")
}

func drawSize(t *rapid.T) string { return histories.OneOf("2Gi", "2Gi", "1Gi", "3Gi").Draw(t, "size") }

func drawClass(t *rapid.T) string {
	return histories.OneOf(className, className, className, "lost").Draw(t, "class")
}

func drawClaimName(t *rapid.T) string { return histories.OneOf("one", "two").Draw(t, "claim") }

var drawClaim = rapid.Custom(func(t *rapid.T) act {
	return createClaim{
		name: drawClaimName(t), from: histories.OneOf(fromSnapshot, fromClaim, fromSnapshot, fromClaim, fromNothing).Draw(t, "from"),
		size: drawSize(t), class: drawClass(t), block: histories.OneIn(t, 4, "block"),
	}
})

var drawSnapshot = rapid.Custom(func(t *rapid.T) act {
	return createSnapshot{
		driver: drawDriver(t), size: histories.OneOf("2Gi", "2Gi", "").Draw(t, "restore size"),
		mode: histories.OneOf("Filesystem", "Block", "").Draw(t, "mode"), ready: drawOften(t, "ready"), bound: drawOften(t, "bound"),
		content: drawOften(t, "content"), isMisbound: histories.OneIn(t, 8, "misbound"),
	}
})

var drawAct = rapid.Custom(func(t *rapid.T) act {
	switch rapid.IntRange(0, 17).Draw(t, "act") {
	case 0, 1, 2, 3, 4:
		return drawClaim.Draw(t, "create")
	case 5, 6:
		return deleteClaim{histories.OneOf("one", "two", sourceClaim).Draw(t, "deleted")}
	case 7, 8:
		return createSource{drawDriver(t), drawSize(t), drawClass(t), histories.OneIn(t, 4, "block"), drawOften(t, "bound")}
	case 9, 10, 11:
		return drawSnapshot.Draw(t, "snapshot")
	case 12:
		return setReady{drawOften(t, "ready")}
	case 13:
		return allowConversion{histories.OneOf("true", "false", "odd").Draw(t, "value")}
	case 14:
		return deleteSnapshot{}
	default:
		return setDriver{histories.OneOf(callCreate, callDelete).Draw(t, "call"), storeddriver.DrawOutcome(t)}
	}
})

var drawFault = rapid.Custom(func(t *rapid.T) histories.Fault {
	return histories.Fault{
		Kind: histories.OneOf(sim.FaultRefused, sim.FaultLost, sim.FaultConflict).Draw(t, "fault"),
		Request: histories.OneOf("create persistentvolumes", "update persistentvolumes", "delete persistentvolumes", "update persistentvolumeclaims",
			"patch volumesnapshots", "update volumesnapshots").Draw(t, "request"),
	}
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

// drawHistory begins with a world that has sources.
var drawHistory = rapid.Custom(func(t *rapid.T) history {
	begin := history{
		{Act: createSource{driverName, "2Gi", className, false, true}},
		{Act: createSnapshot{driver: driverName, size: "2Gi", mode: "Filesystem", ready: true, bound: true, content: true}},
	}[histories.OneOf(0, 2, 0).Draw(t, "begin"):]
	return append(begin, histories.DrawSteps(t, drawStep, 6, 3)...)
})
