package volumemanager

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/executor"
	"github.com/volsim/volsim/plugins"
)

// errNoMapper says that a plugin does not support block volumes.
var errNoMapper = errors.New("plugin does not support block volumes")

// errNoDevicePath says that the path of the device is unknown.
var errNoDevicePath = errors.New("device path of the volume is empty")

func (m *Manager) mapOperation(name corev1.UniqueVolumeName, pod types.UID) executor.Operation {
	wanted := m.desired.volumes[name]
	want := wanted.pods[pod]
	return executor.Operation{
		Key:  mountKey(wanted, pod),
		Name: opMapVolume,
		Run:  func(ctx context.Context) error { return m.mapVolume(ctx, name, pod) },
		Done: func(_ executor.Outcome, err error) { m.mapEnded(want, err) },
	}
}

// mapVolume sets up the device for the node, if necessary, and maps it for the pod. It does nothing
// for a volume that the pod no longer wants. After the plugin has mapped the device, every failure
// leaves the mapping uncertain, so that it is undone when the pod goes.
//
// Differs: it does not wait for the attacher as upstream does; the volume is already attached. A
// final error does not clear an uncertain mapping: an earlier try may have come further. Upstream
// forgets what that try left.
//
// Upstream: pkg/volume/util/operationexecutor GenerateMapVolumeFunc (v1.36).
func (m *Manager) mapVolume(ctx context.Context, name corev1.UniqueVolumeName, pod types.UID) error {
	wanted, actual := m.desired.volumes[name], m.actual.volumes[name]
	if wanted == nil || actual == nil || !wanted.wantedBy(pod) {
		return nil
	}
	if actual.caps.BlockMapper == nil {
		return errNoMapper
	}
	actual.lastPod = pod
	want := wanted.pods[pod]
	if err := m.checkNodeAffinity(want); err != nil {
		return m.mapFailed(want, "MapVolume.NodeAffinity check failed", err)
	}
	if err := actual.checkOnePod(pod, want.spec); err != nil {
		return m.mapFailed(want, "MapVolume.SetUpDevice failed", err)
	}
	global, err := actual.caps.BlockPaths.GlobalMapPath(want.spec)
	if err != nil {
		return m.mapFailed(want, "MapVolume.GetGlobalMapPath failed", err)
	}
	if actual.device != mounted {
		if err := m.setUpDevice(ctx, actual, want, global); err != nil {
			return m.mapFailed(want, "MapVolume.SetUpDevice failed", err)
		}
		if wanted := m.desired.volumes[name]; wanted == nil || !wanted.wantedBy(pod) {
			return nil
		}
	}
	before, use := actual.mountState(pod), m.mountOptions(want, actual)
	if before == notMounted {
		m.actual.setMount(actual, want, mountUncertain)
	}
	dir, link := actual.caps.BlockPaths.PodDeviceMapPath(want.spec.Name(), pod)
	at := podDevice{volume: name, pod: pod, global: global, dir: dir, link: link}
	what, err := m.mapForPod(ctx, actual, want, use, at)
	if err == nil && before != mounted {
		if err := m.expandAtMount(ctx, actual, want); err != nil {
			return m.mapFailed(want, "MapVolume.MarkVolumeAsMounted failed while expanding volume", err)
		}
	}
	m.actual.setMount(actual, want, stateAfter(before, use.Reconstructed || before == mountUncertain, err))
	if have := actual.pods[pod]; have != nil && err == nil {
		have.remount = false
	}
	m.cfg.PodChanged(pod)
	if err != nil {
		return m.mapFailed(want, what, err)
	}
	return nil
}

// setUpDevice sets up the device for the node.
func (m *Manager) setUpDevice(ctx context.Context, v *actualVolume, want desiredMount, global string) error {
	before := v.device
	v.device, v.mountPath = mountUncertain, global
	_, err := v.caps.BlockMapper.SetUpDevice(ctx, want.spec, want.pod, m.deviceMountOptions(want, v))
	v.device = stateAfter(before, v.deviceReconstructed, err)
	v.deviceReconstructed = v.deviceReconstructed && err != nil
	return err
}

// mapForPod maps the device for the pod. what describes the part that failed.
func (m *Manager) mapForPod(ctx context.Context, v *actualVolume, want desiredMount, use plugins.MountOptions,
	at podDevice,
) (what string, err error) {
	if err := createDeviceFile(m.cfg.FS, at.node()); err != nil {
		return "MapVolume failed", &plugins.Error{Class: plugins.Transient, Err: err}
	}
	device, err := v.caps.BlockMapper.MapPodDevice(ctx, want.spec, want.pod, use)
	if err != nil {
		return "MapVolume.MapPodDevice failed", err
	}
	if device == "" {
		device = v.devicePath
	}
	if device == "" {
		return "MapVolume failed", &plugins.Error{Class: plugins.Uncertain, Err: errNoDevicePath}
	}
	if device, err = followLinks(m.cfg.FS, device); err != nil {
		return "MapVolume.EvalHostSymlinks failed", &plugins.Error{Class: plugins.Uncertain, Err: err}
	}
	if err := m.mapDevice(at, device); err != nil {
		return "MapVolume.MapBlockVolume failed", &plugins.Error{Class: plugins.Uncertain, Err: err}
	}
	m.recordMapped(want, fmt.Sprintf("globalMapPath %q", at.global))
	m.recordMapped(want, fmt.Sprintf("volumeMapPath %q", at.dir))
	return "", nil
}

// recordMapped reports to the pod that the device is mapped.
func (m *Manager) recordMapped(want desiredMount, where string) {
	m.cfg.Recorder.Event(want.pod, corev1.EventTypeNormal, reasonMounted,
		fmt.Sprintf("MapVolume.MapPodDevice succeeded for volume %q %s", want.spec.Name(), where))
}

func (m *Manager) mapFailed(want desiredMount, what string, err error) error {
	m.cfg.Recorder.Event(want.pod, corev1.EventTypeWarning, reasonFailedMap,
		fmt.Sprintf("%s for volume %q : %v", what, want.spec.Name(), err))
	return fmt.Errorf("%s: %w", what, err)
}

// mapEnded reports a panic of a mapping to the pod. mapVolume has reported other failures.
func (m *Manager) mapEnded(want desiredMount, err error) {
	if panicked := (*executor.PanicError)(nil); errors.As(err, &panicked) {
		m.cfg.Recorder.Event(want.pod, corev1.EventTypeWarning, reasonFailedMap,
			fmt.Sprintf("MapVolume failed for volume %q : %v", want.spec.Name(), err))
	}
}

// A podDevice is where a device is mapped for a pod: a device node in the volume's global
// directory, named by the pod's UID, and a link in a directory of the pod. The file on which the
// node is bound shows a restarted kubelet that the plugin may have mapped the device for the pod.
//
// Differs: upstream creates that file after the plugin's call, and removes it before the plugin's
// undo; a kubelet restarted in between does not find the mapping.
type podDevice struct {
	volume    corev1.UniqueVolumeName
	pod       types.UID
	global    string
	dir, link string
}

func (d podDevice) node() string { return filepath.Join(d.global, string(d.pod)) }

func (d podDevice) linkPath() string { return filepath.Join(d.dir, d.link) }
