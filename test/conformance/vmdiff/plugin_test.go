package vmdiff

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	volumetesting "k8s.io/kubernetes/pkg/volume/testing"
	utilstrings "k8s.io/utils/strings"

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// ourPlugin depends on the names of volumes in the same way as upstream's FakeVolume.
type ourPlugin struct {
	name     string
	process  *sim.Process
	observer *observer
	disk     nodefs.FS
	mounts   map[string]bool // volumes for which SetUp was ever called
	devices  map[string]bool // volumes for which MountDevice was ever called
	attached map[string]bool // attached volumes
}

func (p *ourPlugin) Name() string { return p.name }

func (p *ourPlugin) CanSupport(spec *plugins.Spec) bool {
	return pluginOf(spec.Name()) == p.name
}

func (p *ourPlugin) VolumeName(spec *plugins.Spec) (string, error) { return spec.Name(), nil }

func (*ourPlugin) CanDeviceMount(*plugins.Spec) (bool, error) { return true, nil }

func (*ourPlugin) DeviceMountPath(spec *plugins.Spec) (string, error) {
	return filepath.Join(deviceRoot, spec.Name()), nil
}

// kubeletRoot is the kubelet's directory.
const kubeletRoot = "/kubelet"

func (p *ourPlugin) MountPath(spec *plugins.Spec, pod types.UID) string {
	return p.mountPath(spec.Name(), pod)
}

func (p *ourPlugin) mountPath(specName string, pod types.UID) string {
	return filepath.Join(kubeletRoot, "pods", string(pod), "volumes", utilstrings.EscapeQualifiedName(p.name), specName)
}

// Reconstruct returns a volume with a name only, as upstream's fake plugin does.
func (*ourPlugin) Reconstruct(specName string, _ types.UID) (plugins.Reconstructed, error) {
	return plugins.Reconstructed{Spec: &plugins.Spec{Volume: &corev1.Volume{Name: specName}}}, nil
}

// do makes and records a call, unless a fault is injected. The call is a suspension point, before
// and after its effect.
func (p *ourPlugin) do(verb, disk string, pod types.UID, effect func() error) error {
	action := trace.Action{Kind: trace.KindDriver, Verb: verb, Object: strings.TrimSpace(disk + " " + string(pod))}
	var err error
	p.process.Call(action, func() trace.Outcome {
		if fails, uncertain := p.observer.fails(verb); !fails {
			err = effect()
		} else if err = errInjected; uncertain {
			err = uncertainError(errInjected.Error())
		}
		p.observer.record(verb, disk, pod, err)
		return trace.Outcome{Err: err}
	})
	return err
}

func uncertainError(text string) error {
	return &plugins.Error{Class: plugins.Uncertain, Err: errors.New(text)}
}

func (p *ourPlugin) SetUp(_ context.Context, spec *plugins.Spec, pod *corev1.Pod, _ plugins.MountOptions) error {
	return p.do("SetUp", spec.Name(), pod.UID, func() error {
		if err := p.setUp(spec.Name()); err != nil {
			return err
		}
		return p.disk.MkdirAll(p.MountPath(spec, pod.UID))
	})
}

// setUp does what FakeVolume does.
//
// Upstream: pkg/volume/testing FakeVolume.SetUp (v1.36).
func (p *ourPlugin) setUp(disk string) error {
	before := p.mounts[disk]
	p.mounts[disk] = true
	timeout, failure := uncertainError("time out on setup"), errors.New("mounting volume failed")
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
	return p.do("TearDown", specName, pod, func() error { return p.disk.RemoveAll(p.mountPath(specName, pod)) })
}

func (p *ourPlugin) MountDevice(_ context.Context, spec *plugins.Spec, _ string, use plugins.MountOptions) error {
	return p.do("MountDevice", spec.Name(), "", func() error { return p.mountDevice(spec.Name(), use.DevicePath) })
}

// mountDevice does what FakeVolume does.
//
// Upstream: pkg/volume/testing FakeVolume.MountDevice (v1.36).
func (p *ourPlugin) mountDevice(disk, device string) error {
	before := p.devices[disk]
	p.devices[disk] = true
	failure := errors.New("error mounting disk: " + device)
	switch disk {
	case volumetesting.TimeoutOnMountDeviceVolumeName:
		return uncertainError("mount failed")
	case volumetesting.FailMountDeviceVolumeName:
		return failure
	case volumetesting.TimeoutAndFailOnMountDeviceVolumeName:
		if before {
			return failure
		}
		return uncertainError("timed out mounting error")
	case volumetesting.SuccessAndTimeoutDeviceName:
		if before {
			return uncertainError("error mounting state")
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

func (*ourPlugin) GlobalMapPath(spec *plugins.Spec) (string, error) {
	return globalOf(spec.Name()), nil
}

func (*ourPlugin) PodDeviceMapPath(specName string, pod types.UID) (dir, link string) {
	return linksOf(pod), specName
}

// SetUpDevice does what FakeVolume does. Its errors differ from those of MountDevice.
func (p *ourPlugin) SetUpDevice(_ context.Context, spec *plugins.Spec, _ *corev1.Pod, _ plugins.MountOptions) (string, error) {
	return "", p.do("SetUpDevice", spec.Name(), "", func() error {
		err := p.mountDevice(spec.Name(), spec.Name())
		if err != nil && plugins.ClassOf(err) == plugins.Final {
			return errors.New("error mapping disk: " + spec.Name())
		}
		return err
	})
}

func (p *ourPlugin) MapPodDevice(_ context.Context, spec *plugins.Spec, pod *corev1.Pod, _ plugins.MountOptions) (string, error) {
	return "", p.do("MapPodDevice", spec.Name(), pod.UID, func() error { return p.setUp(spec.Name()) })
}

func (p *ourPlugin) UnmapPodDevice(_ context.Context, specName string, pod types.UID) error {
	return p.do("UnmapPodDevice", specName, pod, func() error { return nil })
}

func (p *ourPlugin) TearDownDevice(_ context.Context, spec *plugins.Spec) error {
	return p.do("TearDownDevice", spec.Name(), "", func() error { return nil })
}

func (*ourPlugin) ReconstructBlock(string, types.UID) (plugins.Reconstructed, error) {
	panic("upstream's fakes do not reconstruct devices")
}

// An attaching plugin has volumes that the controller attaches first.
type attaching struct{ *ourPlugin }

func (attaching) CanAttach(*plugins.Spec) (bool, error) { return true, nil }

// Attach does what FakeVolume does.
//
// Upstream: pkg/volume/testing FakeVolume.Attach (v1.36).
func (p attaching) Attach(_ context.Context, spec *plugins.Spec, node types.NodeName) (string, error) {
	err := p.do("Attach", spec.Name(), "", func() error {
		before := p.attached[spec.Name()]
		p.attached[spec.Name()] = true
		if node == volumetesting.TimeoutAttachNode || node == volumetesting.UncertainAttachNode && !before {
			return fmt.Errorf("timed out to attach volume %q to node %q", spec.Name(), node)
		}
		return nil
	})
	return devicePath, err
}

// Detach does what FakeVolume does.
//
// Upstream: pkg/volume/testing FakeVolume.Detach (v1.36).
func (p attaching) Detach(_ context.Context, disk string, node types.NodeName) error {
	return p.do("Detach", disk, "", func() error {
		switch {
		case !p.attached[disk]:
			return fmt.Errorf("trying to detach volume %q that is not attached to the node %q", disk, node)
		case node == volumetesting.FailDetachNode:
			return fmt.Errorf("fail to detach volume %q to node %q", disk, node)
		}
		delete(p.attached, disk)
		return nil
	})
}

// An onlyMounting plugin has volumes that are mounted for pods only.
type onlyMounting struct {
	plugins.Plugin
	plugins.Mounter
	plugins.Reconstructor
}
