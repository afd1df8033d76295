package vmdiff

import (
	"slices"

	volumetesting "k8s.io/kubernetes/pkg/volume/testing"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/test/conformance/histories"
)

var drawPod = histories.OneOf("p1", "p1", "p2", "p2", "p3")

var drawDisk = rapid.Custom(func(t *rapid.T) string {
	switch name := histories.OneOf("a", "a", "a", "b", "raw", "raw", "single", "single", "local", "share", "late", "lost", "others", "", "", "", "").Draw(t, "disk"); name {
	case "":
		return drawBehaviour.Draw(t, "behaviour")
	default:
		return name
	}
})

var drawBehaviour = histories.OneOf(
	volumetesting.TimeoutOnSetupVolumeName, volumetesting.FailOnSetupVolumeName, volumetesting.TimeoutAndFailOnSetupVolumeName,
	volumetesting.SuccessAndTimeoutSetupVolumeName, volumetesting.SuccessAndFailOnSetupVolumeName,
	volumetesting.TimeoutOnMountDeviceVolumeName, volumetesting.TimeoutAndFailOnMountDeviceVolumeName,
	volumetesting.FailMountDeviceVolumeName, volumetesting.SuccessAndTimeoutDeviceName, volumetesting.SuccessAndFailOnMountDeviceName,
)

var drawPodCreation = rapid.Custom(func(t *rapid.T) act {
	r := createPod{pod: drawPod.Draw(t, "pod"), disks: []string{drawDisk.Draw(t, "disk")}}
	for len(r.disks) < 3 && histories.OneIn(t, 3, "another") {
		r.disks = append(r.disks, drawDisk.Draw(t, "disk"))
	}
	slices.Sort(r.disks)
	return r
})

// drawAct draws an act.
var drawAct = rapid.Custom(func(t *rapid.T) act {
	switch histories.OneOf("pod", "pod", "pod", "pod", "end", "end", "end", "end", "bind", "create", "delete", "control", "control", "clear", "restart", "restart",
		"nothing").Draw(t, "act") {
	case "pod":
		return drawPodCreation.Draw(t, "kind")
	case "end":
		return endPod{drawPod.Draw(t, "pod"), histories.OneOf(isDeleted, isDeleted, isDeleted, isDeleted, isDeleted, isTerminated, isRemoved, isRemoved).Draw(t, "how")}
	case "bind":
		return bindClaim{"late"}
	case "create":
		return createVolume{"lost"}
	case "delete":
		return deleteClaim{drawDisk.Draw(t, "disk"), histories.OneIn(t, 2, "unprotected")}
	case "control":
		return setController{!histories.OneIn(t, 2, "running")}
	case "restart":
		return restart{}
	case "clear":
		return clearInUse{}
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

var drawPluginFault = rapid.Custom(func(t *rapid.T) pluginFault {
	f := pluginFault{verb: histories.OneOf("SetUp", "TearDown", "MountDevice", "UnmountDevice", "SetUpDevice", "MapPodDevice", "UnmapPodDevice", "TearDownDevice").Draw(t, "verb")}
	if slices.Contains([]string{"SetUp", "MountDevice", "SetUpDevice", "MapPodDevice"}, f.verb) {
		f.uncertain = histories.OneIn(t, 2, "uncertain")
	}
	return f
})

var drawStep = rapid.Custom(func(t *rapid.T) step {
	s := step{acts: []act{drawAct.Draw(t, "act")}}
	for len(s.acts) < 3 && histories.OneIn(t, 4, "and") {
		s.acts = append(s.acts, drawAct.Draw(t, "act"))
	}
	switch histories.OneOf("", "", "", "", "", "", "api", "plugin", "plugin").Draw(t, "faulty") {
	case "api":
		s.fault = drawFault.Draw(t, "fault")
	case "plugin":
		s.pluginFault = drawPluginFault.Draw(t, "fault")
	}
	return s
})

var drawNode = histories.OneOf("node", "node", volumetesting.UncertainAttachNode, volumetesting.TimeoutAttachNode, volumetesting.FailDetachNode)

// drawHistory draws a history.
var drawHistory = rapid.Custom(func(t *rapid.T) history {
	var h history
	var options []act
	if histories.OneIn(t, 8, "self-attach") {
		options = append(options, attachSetting{drawNode.Draw(t, "node"), true})
	}
	if histories.OneIn(t, 3, "devices") {
		options = append(options, useDevices{})
	}
	if len(options) > 0 {
		h = history{{acts: options}}
	}
	return append(h, histories.DrawSteps(t, drawStep, 4, 4)...)
})
