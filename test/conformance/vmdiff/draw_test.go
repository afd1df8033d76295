package vmdiff

import (
	"slices"

	volumetesting "k8s.io/kubernetes/pkg/volume/testing"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/test/conformance/histories"
)

type history = histories.History[step]

var drawPod = histories.OneOf("p1", "p1", "p2", "p2", "p3")

var drawDisk = rapid.Custom(func(t *rapid.T) string {
	switch it := histories.OneOf("a", "a", "a", "b", "raw", "raw", "single", "single", "local", "share", "late", "lost", "others", "", "", "", "").Draw(t, "disk"); it {
	case "":
		return drawMagic.Draw(t, "name")
	default:
		return it
	}
})

var drawMagic = histories.OneOf(
	volumetesting.TimeoutOnSetupVolumeName, volumetesting.FailOnSetupVolumeName, volumetesting.TimeoutAndFailOnSetupVolumeName,
	volumetesting.SuccessAndTimeoutSetupVolumeName, volumetesting.SuccessAndFailOnSetupVolumeName,
	volumetesting.TimeoutOnMountDeviceVolumeName, volumetesting.TimeoutAndFailOnMountDeviceVolumeName,
	volumetesting.FailMountDeviceVolumeName, volumetesting.SuccessAndTimeoutDeviceName, volumetesting.SuccessAndFailOnMountDeviceName,
)

var runPods = rapid.Custom(func(t *rapid.T) act {
	r := runPod{pod: drawPod.Draw(t, "pod"), disks: []string{drawDisk.Draw(t, "disk")}}
	for len(r.disks) < 3 && histories.OneIn(t, 3, "another") {
		r.disks = append(r.disks, drawDisk.Draw(t, "disk"))
	}
	slices.Sort(r.disks)
	return r
})

// acts draws any act.
var acts = rapid.Custom(func(t *rapid.T) act {
	switch histories.OneOf("pod", "pod", "pod", "pod", "ends", "ends", "ends", "ends", "bind", "make", "drop", "control", "control", "forget", "restart", "restart",
		"nothing").Draw(t, "act") {
	case "pod":
		return runPods.Draw(t, "it")
	case "ends":
		return endPod{drawPod.Draw(t, "pod"), histories.OneOf(isDeleted, isDeleted, isDeleted, isDeleted, isDeleted, ends, leaves, leaves).Draw(t, "how")}
	case "bind":
		return bind{"late"}
	case "make":
		return makeVolume{"lost"}
	case "drop":
		return dropClaim{drawDisk.Draw(t, "disk"), histories.OneIn(t, 2, "unprotected")}
	case "control":
		return control{!histories.OneIn(t, 2, "up")}
	case "restart":
		return restart{}
	case "forget":
		return forget{}
	default:
		return nothing{}
	}
})

var drawFault = rapid.Custom(func(t *rapid.T) histories.Fault {
	f := histories.Fault{Request: histories.OneOf("get persistentvolumeclaims", "get persistentvolumes", "patch/status nodes").Draw(t, "request")}
	f.Kind = sim.FaultRefused
	if f.Request == "patch/status nodes" {
		f.Kind = histories.OneOf(sim.FaultRefused, sim.FaultLost).Draw(t, "kind")
	}
	return f
})

var drawBreakage = rapid.Custom(func(t *rapid.T) breakage {
	b := breakage{verb: histories.OneOf("SetUp", "TearDown", "MountDevice", "UnmountDevice", "SetUpDevice", "MapPodDevice", "UnmapPodDevice", "TearDownDevice").Draw(t, "verb")}
	if slices.Contains([]string{"SetUp", "MountDevice", "SetUpDevice", "MapPodDevice"}, b.verb) {
		b.uncertain = histories.OneIn(t, 2, "uncertain")
	}
	return b
})

var steps = rapid.Custom(func(t *rapid.T) step {
	s := step{acts: []act{acts.Draw(t, "act")}}
	for len(s.acts) < 3 && histories.OneIn(t, 4, "and") {
		s.acts = append(s.acts, acts.Draw(t, "act"))
	}
	switch histories.OneOf("", "", "", "", "", "", "api", "plugin", "plugin").Draw(t, "goes wrong") {
	case "api":
		s.fault = drawFault.Draw(t, "fault")
	case "plugin":
		s.broke = drawBreakage.Draw(t, "breakage")
	}
	return s
})

var drawNode = histories.OneOf("node", "node", volumetesting.UncertainAttachNode, volumetesting.TimeoutAttachNode, volumetesting.FailDetachNode)

// draw draws a whole history, of some scenes of some steps each: rapid's lists are short, and shrink well.
var draw = rapid.Custom(func(t *rapid.T) history {
	var h history
	var begin []act
	if histories.OneIn(t, 8, "itself") {
		begin = append(begin, setting{drawNode.Draw(t, "node"), true})
	}
	if histories.OneIn(t, 3, "devices") {
		begin = append(begin, asDevices{})
	}
	if len(begin) > 0 {
		h = history{{acts: begin}}
	}
	return append(h, slices.Concat(rapid.SliceOfN(rapid.SliceOfN(steps, 1, 4), 1, 4).Draw(t, "scenes")...)...)
})
