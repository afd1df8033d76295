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

// errNoMapper says that a plugin does not make volumes be there as devices.
var errNoMapper = errors.New("the plugin maps no devices")

// errNoDevicePath says that nobody told where the device is.
var errNoDevicePath = errors.New("device path of the volume is empty")

func (m *Manager) mapOperation(name corev1.UniqueVolumeName, pod types.UID) executor.Operation {
	wanted := m.desired.volumes[name]
	want := wanted.pods[pod]
	return executor.Operation{
		Key:  mountKey(wanted, pod),
		Name: executor.MapVolume,
		Run:  func(ctx context.Context) error { return m.mapVolume(ctx, name, pod) },
		Done: func(_ executor.Outcome, err error) { m.mapEnded(want, err) },
	}
}

// mapVolume makes the device be there for the node, if that is not done, and then for the pod. It does nothing for a volume that
// the pod no longer wants. Once the plugin has made the device be there for the pod, whatever fails leaves it uncertain, so that
// it is taken away when the pod goes.
//
// Differs: nothing is asked of the attacher, which upstream waits for; the volume is attached before. A final error does not make
// sure that nothing is there where that was uncertain: an earlier try may have come further. Upstream forgets what that has left.
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

// setUpDevice makes the device be there for the node.
func (m *Manager) setUpDevice(ctx context.Context, v *actualVolume, want desiredMount, global string) error {
	before := v.device
	v.device, v.mountPath = mountUncertain, global
	_, err := v.caps.BlockMapper.SetUpDevice(ctx, want.spec, want.pod, m.deviceMountOptions(want, v))
	v.device = stateAfter(before, v.deviceReconstructed, err)
	v.deviceReconstructed = v.deviceReconstructed && err != nil
	return err
}

// mapForPod makes the device be there for the pod. what says which part failed.
func (m *Manager) mapForPod(ctx context.Context, v *actualVolume, want desiredMount, use plugins.MountOptions, at podDevice) (what string, err error) {
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

// recordMapped tells the pod that the device is there.
func (m *Manager) recordMapped(want desiredMount, where string) {
	m.cfg.Recorder.Event(want.pod, corev1.EventTypeNormal, reasonMounted,
		fmt.Sprintf("MapVolume.MapPodDevice succeeded for volume %q %s", want.spec.Name(), where))
}

func (m *Manager) mapFailed(want desiredMount, what string, err error) error {
	m.cfg.Recorder.Event(want.pod, corev1.EventTypeWarning, reasonFailedMap,
		fmt.Sprintf("%s for volume %q : %v", what, want.spec.Name(), err))
	return fmt.Errorf("%s: %w", what, err)
}

// mapEnded tells the pod that mapping its volume panicked; other failures mapVolume has told of.
func (m *Manager) mapEnded(want desiredMount, err error) {
	if panicked := (*executor.PanicError)(nil); errors.As(err, &panicked) {
		m.cfg.Recorder.Event(want.pod, corev1.EventTypeWarning, reasonFailedMap,
			fmt.Sprintf("MapVolume failed for volume %q : %v", want.spec.Name(), err))
	}
}

// podDevice is where a device is there for a pod: a node of it in the volume's global directory, named as the pod's UID, and a
// link in a directory of the pod's. The file on which the node is bound tells a kubelet that begins anew that the plugin may have
// made the device be there for the pod.
//
// Differs: upstream makes that file when the plugin has done so, and removes it before the plugin is asked to undo it; what is
// between a kubelet that begins anew does not find.
type podDevice struct {
	volume    corev1.UniqueVolumeName
	pod       types.UID
	global    string
	dir, link string
}

func (d podDevice) node() string { return filepath.Join(d.global, string(d.pod)) }

func (d podDevice) linkPath() string { return filepath.Join(d.dir, d.link) }
