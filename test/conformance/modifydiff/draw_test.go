package modifydiff

import (
	"google.golang.org/grpc/codes"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/histories/storeddriver"
)

func drawClaim(t *rapid.T) string { return histories.OneOf("data", "data", "log").Draw(t, "claim") }

func drawClass(t *rapid.T) string { return histories.OneOf("fast", "slow", "odd").Draw(t, "class") }

var drawAct = rapid.Custom(func(t *rapid.T) act {
	switch rapid.IntRange(0, 15).Draw(t, "act") {
	case 0, 1:
		return createClaim{
			drawClaim(t), histories.OneOf("", "fast", "slow").Draw(t, "of class"), histories.OneIn(t, 10, "foreign"), histories.OneIn(t, 4, "secret"),
		}
	case 2:
		return deleteClaim{drawClaim(t)}
	case 3, 4, 5, 6:
		return request{drawClaim(t), histories.OneOf("fast", "slow", "odd", "fast", "slow", "").Draw(t, "requested")}
	case 7, 8:
		return createClass{drawClass(t), histories.OneOf("100", "200").Draw(t, "iops")}
	case 9:
		return deleteClass{drawClass(t)}
	case 10:
		return setSecret{rapid.Bool().Draw(t, "exists")}
	case 11:
		return forget{drawClaim(t)}
	default:
		return setOutcome{storeddriver.DrawOutcome(t, codes.NotFound)}
	}
})

var drawFault = rapid.Custom(func(t *rapid.T) histories.Fault {
	return histories.Fault{
		Kind:    histories.OneOf(sim.FaultRefused, sim.FaultLost, sim.FaultConflict).Draw(t, "fault"),
		Request: histories.OneOf("patch/status persistentvolumeclaims", "patch persistentvolumes", "get secrets").Draw(t, "request"),
	}
})

var drawStep = rapid.Custom(func(t *rapid.T) step {
	s := step{Act: drawAct.Draw(t, "act")}
	if histories.OneIn(t, 10, "restart") {
		s.Act = restart{Meanwhile: s.Act}
	}
	if histories.OneIn(t, 10, "fails") {
		s.Fault = drawFault.Draw(t, "fault")
	}
	return s
})

// drawHistory begins with a world in which volumes are modified.
var drawHistory = rapid.Custom(func(t *rapid.T) history {
	begin := history{
		{Act: createClass{"fast", "9000"}}, {Act: createClass{"slow", "10"}}, {Act: createClaim{name: "data"}},
	}[histories.OneOf(0, 3, 0).Draw(t, "begin"):]
	return append(begin, histories.DrawSteps(t, drawStep, 6, 3)...)
})
