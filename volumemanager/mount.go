package volumemanager

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/executor"
	"github.com/volsim/volsim/plugins"
)

// mountKey returns the key of mounting a volume: pods that share a volume are mounted one after the
// other.
func mountKey(v *desiredVolume, pod types.UID) executor.Key {
	if v.attachable || v.deviceMountable {
		return executor.Key{Volume: v.name}
	}
	return executor.Key{Volume: v.name, Pod: pod}
}

func (m *Manager) mountOperation(name corev1.UniqueVolumeName, pod types.UID) executor.Operation {
	wanted := m.desired.volumes[name]
	want := wanted.pods[pod]
	if wanted.block {
		return m.mapOperation(name, pod)
	}
	return executor.Operation{
		Key:  mountKey(wanted, pod),
		Name: opMount,
		Run:  func(ctx context.Context) error { return m.mount(ctx, name, pod) },
		Done: func(_ executor.Outcome, err error) { m.mountEnded(want, err) },
	}
}

// mountOptions returns the plugin's options for a pod's use of a volume.
func (m *Manager) mountOptions(want desiredMount, actual *actualVolume) plugins.MountOptions {
	use := plugins.MountOptions{DevicePath: actual.devicePath, SELinuxLabel: actual.label, Recorder: m.cfg.Recorder}
	if security := want.pod.Spec.SecurityContext; security != nil {
		use.FSGroup, use.FSGroupChangePolicy = security.FSGroup, security.FSGroupChangePolicy
	}
	if m := actual.pods[want.pod.UID]; m != nil {
		use.Remount, use.Reconstructed = m.state == mounted, m.reconstructed
	}
	return use
}

// deviceMountOptions is mountOptions for the device, which has states of its own.
func (m *Manager) deviceMountOptions(want desiredMount, actual *actualVolume) plugins.MountOptions {
	use := m.mountOptions(want, actual)
	use.Remount, use.Reconstructed = false, actual.deviceReconstructed
	return use
}

// mount mounts the device for the node, if necessary, and then the volume for the pod. It does
// nothing for a volume that the pod no longer wants.
//
// Upstream: pkg/volume/util/operationexecutor GenerateMountVolumeFunc (v1.36).
func (m *Manager) mount(ctx context.Context, name corev1.UniqueVolumeName, pod types.UID) error {
	wanted, actual := m.desired.volumes[name], m.actual.volumes[name]
	if wanted == nil || actual == nil || !wanted.wantedBy(pod) || actual.mislabelled(wanted) {
		return nil
	}
	actual.lastPod = pod
	actual.setLabel(wanted)
	want := wanted.pods[pod]
	if what, err := m.checkMount(want, actual); err != nil {
		return m.mountFailed(want, what, err)
	}
	if wanted.deviceMountable && actual.device != mounted {
		if err := m.mountDevice(ctx, actual, want); err != nil {
			return m.mountFailed(want, "MountVolume.MountDevice failed", err)
		}
		if wanted := m.desired.volumes[name]; wanted == nil || !wanted.wantedBy(pod) {
			return nil
		}
	}
	before, use := actual.mountState(pod), m.mountOptions(want, actual)
	if before == notMounted {
		m.actual.setMount(actual, want, mountUncertain)
	}
	err := actual.caps.Mounter.SetUp(ctx, want.spec, want.pod, use)
	if err == nil && before != mounted {
		if err := m.expandAtMount(ctx, actual, want); err != nil {
			return m.mountFailed(want, "MountVolume.Setup failed while expanding volume", err)
		}
	}
	m.actual.setMount(actual, want, stateAfter(before, use.Reconstructed, err))
	if have := actual.pods[pod]; have != nil && err == nil {
		have.remount = false
	}
	m.cfg.PodChanged(pod)
	if err != nil {
		return m.mountFailed(want, "MountVolume.SetUp failed", err)
	}
	return nil
}

// checkMount returns an error if a volume must not be mounted for a pod, and in what which check
// failed.
//
// Upstream: pkg/volume/util/operationexecutor GenerateMountVolumeFunc, checkMountOptionSupport
// (v1.36).
func (m *Manager) checkMount(want desiredMount, actual *actualVolume) (what string, err error) {
	if err := m.checkNodeAffinity(want); err != nil {
		return "MountVolume.NodeAffinity check failed", err
	}
	if checker := actual.caps.MountChecker; checker != nil {
		if err := checker.CheckMount(want.spec); err != nil {
			return "MountVolume.NewMounter initialization failed", err
		}
	}
	if options := actual.caps.MountOptioner; hasMountOptions(want.spec) &&
		(options == nil || !options.SupportsMountOption()) {
		return "MountVolume.MountOptionSupport check failed", errMountOptions
	}
	return "MountVolume.SetUp failed", actual.checkOnePod(want.pod.UID, want.spec)
}

// checkNodeAffinity returns an error if a volume cannot be used on this node.
//
// Upstream: pkg/volume/util/operationexecutor checkNodeAffinity (v1.36).
func (m *Manager) checkNodeAffinity(want desiredMount) error {
	if want.spec.PersistentVolume == nil || m.node == nil {
		return nil
	}
	return storagehelpers.CheckNodeAffinity(want.spec.PersistentVolume, m.node.Labels)
}

// errMountOptions has upstream's text.
var errMountOptions = errors.New("mount options are not supported for this volume type")

// hasMountOptions reports whether a PersistentVolume has mount options.
//
// Upstream: pkg/volume/util MountOptionFromSpec (v1.36).
func hasMountOptions(spec *plugins.Spec) bool {
	volume := spec.PersistentVolume
	if volume == nil {
		return false
	}
	_, annotated := volume.Annotations[corev1.MountOptionAnnotation]
	return annotated || len(volume.Spec.MountOptions) > 0
}

func (m *Manager) mountDevice(ctx context.Context, v *actualVolume, want desiredMount) error {
	path, err := v.caps.DeviceMounter.DeviceMountPath(want.spec)
	if err != nil {
		return err
	}
	before := v.device
	v.device, v.mountPath = mountUncertain, path
	err = v.caps.DeviceMounter.MountDevice(ctx, want.spec, path, m.deviceMountOptions(want, v))
	v.device = stateAfter(before, v.deviceReconstructed, err)
	v.deviceReconstructed = v.deviceReconstructed && err != nil
	return err
}

func (m *Manager) mountFailed(want desiredMount, what string, err error) error {
	m.cfg.Recorder.Event(want.pod, corev1.EventTypeWarning, reasonFailedMount,
		fmt.Sprintf("%s for volume %q : %v", what, want.spec.Name(), err))
	return fmt.Errorf("%s: %w", what, err)
}
