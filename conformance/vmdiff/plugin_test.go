package vmdiff

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	volumetesting "k8s.io/kubernetes/pkg/volume/testing"

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/trace"
)

// ourPlugin does by the names of volumes what upstream's FakeVolume does by the same names.
type ourPlugin struct {
	name      string
	component *sim.Component
	seen      *observer
	mounts    map[string]bool // volumes for which SetUp was ever called and went as far as FakeVolume remembers
	devices   map[string]bool // and MountDevice
}

func (p *ourPlugin) Name() string { return p.name }

func (p *ourPlugin) CanSupport(spec *plugins.Spec) bool {
	return pluginOf(spec.PersistentVolume) == p.name
}

func (p *ourPlugin) VolumeName(spec *plugins.Spec) (string, error) { return spec.Name(), nil }

func (*ourPlugin) CanDeviceMount(*plugins.Spec) (bool, error) { return true, nil }

func (*ourPlugin) DeviceMountPath(spec *plugins.Spec) (string, error) {
	return filepath.Join(deviceRoot, spec.Name()), nil
}

func (*ourPlugin) MountPath(specName string, pod types.UID) string {
	return filepath.Join("/pods", string(pod), specName)
}

// do makes a call, unless it is broken, and notes it. It leaves the component before its effect and after it.
func (p *ourPlugin) do(verb, disk string, pod types.UID, effect func() error) error {
	action := trace.Action{Kind: trace.KindDriver, Verb: verb, Object: strings.TrimSpace(disk + " " + string(pod))}
	var err error
	p.component.Call(action, func() trace.Outcome {
		if broken, uncertain := p.seen.broken(verb); !broken {
			err = effect()
		} else if err = errBroken; uncertain {
			err = unsure(errBroken.Error())
		}
		p.seen.called(verb, disk, pod, err)
		return trace.Outcome{Err: err}
	})
	return err
}

func unsure(text string) error {
	return &plugins.Error{Class: plugins.Uncertain, Err: errors.New(text)}
}

func (p *ourPlugin) SetUp(_ context.Context, spec *plugins.Spec, pod *corev1.Pod, _ plugins.Use) error {
	return p.do("SetUp", spec.Name(), pod.UID, func() error { return p.setUp(spec.Name()) })
}

// setUp is FakeVolume's.
//
// Upstream: pkg/volume/testing FakeVolume.SetUp (v1.36).
func (p *ourPlugin) setUp(disk string) error {
	before := p.mounts[disk]
	p.mounts[disk] = true
	timeout, failure := unsure("time out on setup"), errors.New("mounting volume failed")
	switch disk {
	case volumetesting.TimeoutOnSetupVolumeName:
		return timeout
	case volumetesting.FailOnSetupVolumeName:
		return failure
	case volumetesting.TimeoutAndFailOnSetupVolumeName:
		if before {
			return failure
		}
		return timeout
	case volumetesting.SuccessAndFailOnSetupVolumeName:
		if before {
			return failure
		}
	case volumetesting.SuccessAndTimeoutSetupVolumeName:
		if before {
			return timeout
		}
	}
	return nil
}

func (p *ourPlugin) TearDown(_ context.Context, specName string, pod types.UID) error {
	return p.do("TearDown", specName, pod, func() error { return nil })
}

func (p *ourPlugin) MountDevice(_ context.Context, spec *plugins.Spec, _ string, use plugins.Use) error {
	return p.do("MountDevice", spec.Name(), "", func() error { return p.mountDevice(spec.Name(), use.DevicePath) })
}

// mountDevice is FakeVolume's.
//
// Upstream: pkg/volume/testing FakeVolume.MountDevice (v1.36).
func (p *ourPlugin) mountDevice(disk, device string) error {
	before := p.devices[disk]
	p.devices[disk] = true
	failure := errors.New("error mounting disk: " + device)
	switch disk {
	case volumetesting.TimeoutOnMountDeviceVolumeName:
		return unsure("mount failed")
	case volumetesting.FailMountDeviceVolumeName:
		return failure
	case volumetesting.TimeoutAndFailOnMountDeviceVolumeName:
		if before {
			return failure
		}
		return unsure("timed out mounting error")
	case volumetesting.SuccessAndTimeoutDeviceName:
		if before {
			return unsure("error mounting state")
		}
	case volumetesting.SuccessAndFailOnMountDeviceName:
		if before {
			return failure
		}
	}
	return nil
}

func (p *ourPlugin) UnmountDevice(_ context.Context, path string) error {
	return p.do("UnmountDevice", strings.TrimPrefix(path, deviceRoot+"/"), "", func() error { return nil })
}

// attaching is a plugin whose volumes are attached first, by the controller.
type attaching struct{ *ourPlugin }

func (attaching) CanAttach(*plugins.Spec) (bool, error) { return true, nil }

func (attaching) Attach(context.Context, *plugins.Spec, types.NodeName) (string, error) {
	panic("the kubelet attaches")
}

func (attaching) Detach(context.Context, string, types.NodeName) error { panic("the kubelet detaches") }

// onlyMounting is a plugin whose volumes are not mounted for the node first.
type onlyMounting struct {
	plugins.Plugin
	plugins.Mounter
}
