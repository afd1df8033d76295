package capdiff

import (
	storagev1 "k8s.io/api/storage/v1"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/test/conformance/histories"
)

func drawClassName(t *rapid.T) string {
	return histories.OneOf("fast", "slow", "late").Draw(t, "class")
}

func drawNodeName(t *rapid.T) string {
	return histories.OneOf("node-1", "node-2", "node-3").Draw(t, "node")
}

func drawPool(t *rapid.T) string { return histories.OneOf("ssd", "hdd").Draw(t, "pool") }

var drawClass = rapid.Custom(func(t *rapid.T) createClass {
	const late = storagev1.VolumeBindingWaitForFirstConsumer
	return createClass{
		name: drawClassName(t), pool: drawPool(t), foreign: histories.OneIn(t, 8, "foreign"),
		mode: histories.OneOf(late, late, late, storagev1.VolumeBindingImmediate).Draw(t, "mode"),
	}
})

// drawLabels draws labels of a node, or a segment.
func drawLabels(t *rapid.T) map[string]string {
	labels := map[string]string{}
	for _, key := range []string{"zone", "rack"} {
		if value := histories.OneOf("a", "b", "").Draw(t, key); value != "" {
			labels[key] = value
		}
	}
	return labels
}

// drawKeys draws topology keys, in any order.
func drawKeys(t *rapid.T) []string {
	zone, both := []string{"zone"}, []string{"zone", "rack"}
	return histories.OneOf(zone, zone, both, []string{"rack", "zone"}, []string{"rack"}, nil).Draw(t, "keys")
}

var drawAct = rapid.Custom(func(t *rapid.T) act {
	switch rapid.IntRange(0, 17).Draw(t, "act") {
	case 0, 1:
		return drawClass.Draw(t, "create")
	case 2:
		return deleteClass{drawClassName(t)}
	case 3:
		return replaceClass{drawClass.Draw(t, "replace")}
	case 4, 5, 6:
		return label{drawNodeName(t), drawLabels(t)}
	case 7:
		return deleteNode{drawNodeName(t)}
	case 8, 9, 10:
		return register{drawNodeName(t), drawKeys(t)}
	case 11, 12:
		return setDriver{
			placeOf(map[string]string{"pool": drawPool(t)}, drawLabels(t)),
			histories.OneOf("64Mi", "33Mi", "8Gi", "0").Draw(t, "size"),
		}
	case 13:
		return setDriver{"fails", histories.OneOf("false", "true").Draw(t, "fails")}
	case 14:
		return createObject{drawClassName(t), drawLabels(t), histories.OneIn(t, 4, "unmanaged")}
	default:
		return edit{
			rapid.IntRange(0, 5).Draw(t, "object"),
			histories.OneOf(setCapacity, dropLabels, setLabels, dropOwners, remove).Draw(t, "edit"),
		}
	}
})

var drawFault = rapid.Custom(func(t *rapid.T) histories.Fault {
	verb := histories.OneOf("create", "update", "delete").Draw(t, "verb")
	return histories.Fault{
		Kind:    histories.OneOf(sim.FaultRefused, sim.FaultLost, sim.FaultConflict).Draw(t, "fault"),
		Request: verb + " csistoragecapacities",
	}
})

var drawStep = rapid.Custom(func(t *rapid.T) step {
	s := step{Act: drawAct.Draw(t, "act")}
	if histories.OneIn(t, 10, "restart") {
		s.Act = restart{Meanwhile: s.Act}
	}
	if histories.OneIn(t, 6, "fails") {
		s.Fault = drawFault.Draw(t, "fault")
	}
	return s
})

// drawHistory begins with a world in which something is published.
var drawHistory = rapid.Custom(func(t *rapid.T) history {
	begin := history{
		{Act: label{"node-1", map[string]string{"zone": "a", "rack": "a"}}},
		{Act: register{"node-1", []string{"zone"}}},
		{Act: createClass{"late", "ssd", storagev1.VolumeBindingWaitForFirstConsumer, false}},
	}[histories.OneOf(0, 3).Draw(t, "begin"):]
	return append(begin, histories.DrawSteps(t, drawStep, 6, 4)...)
})
