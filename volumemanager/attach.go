package volumemanager

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/executor"
	"github.com/volsim/volsim/plugins"
)

// A kubelet that attaches and detaches itself cannot read from the API what is attached to its
// node: node.status.volumesAttached belongs to the attach/detach controller. It remembers a volume
// from before it is attached until it is detached.
//
// Differs: upstream's kubelet forgets a volume whose attach failed, whatever the result.

// Reasons of the events about attaching.
//
// Upstream: pkg/kubelet/events.
const (
	reasonAttached     = "SuccessfulAttachVolume"
	reasonFailedAttach = "FailedAttachVolume"
)

// attachOperation returns the operation that attaches a volume to this node.
//
// Upstream: pkg/volume/util/operationexecutor GenerateAttachVolumeFunc (v1.36).
func (m *Manager) attachOperation(name corev1.UniqueVolumeName) executor.Operation {
	wanted := m.desired.volumes[name]
	want := wanted.pods[wanted.podsAfter("")[0]]
	return executor.Operation{
		Key: executor.Key{Volume: name}, Name: opAttach,
		Run:  func(ctx context.Context) error { return m.attach(ctx, name, want) },
		Done: func(_ executor.Outcome, err error) { m.attachEnded(want, err) },
	}
}

func (m *Manager) attach(ctx context.Context, name corev1.UniqueVolumeName, want desiredMount) error {
	wanted := m.desired.volumes[name]
	if wanted == nil {
		return nil
	}
	actual := m.actual.volumes[name]
	if actual == nil {
		actual = m.actual.add(wanted, "")
	}
	actual.attaching = true
	m.cfg.ReportChanged()
	path, err := wanted.caps.Attacher.Attach(ctx, want.spec, m.cfg.NodeName)
	if elsewhere := (*plugins.DanglingError)(nil); errors.As(err, &elsewhere) && !actual.reconstructed {
		delete(m.actual.volumes, name)
	}
	if err != nil {
		return err
	}
	actual.attaching, actual.reconstructed, actual.devicePath = false, false, path
	m.cfg.Recorder.Event(want.pod, corev1.EventTypeNormal, reasonAttached,
		fmt.Sprintf("AttachVolume.Attach succeeded for volume %q ", want.spec.Name()))
	return nil
}

// attachEnded reports a failed attach to the pod.
func (m *Manager) attachEnded(want desiredMount, err error) {
	if err != nil {
		m.cfg.Recorder.Event(want.pod, corev1.EventTypeWarning, reasonFailedAttach,
			fmt.Sprintf("AttachVolume.Attach failed for volume %q : %v", want.spec.Name(), err))
	}
}

// detachOperation returns the operation that detaches a volume from this node.
//
// Upstream: pkg/volume/util/operationexecutor GenerateDetachVolumeFunc (v1.36).
func (m *Manager) detachOperation(name corev1.UniqueVolumeName) executor.Operation {
	return executor.Operation{
		Key: executor.Key{Volume: name}, Name: opDetach,
		Run: func(ctx context.Context) error { return m.detach(ctx, name) },
	}
}

func (m *Manager) detach(ctx context.Context, name corev1.UniqueVolumeName) error {
	actual := m.actual.volumes[name]
	if actual == nil || len(actual.pods) > 0 || actual.device != notMounted || m.desired.volumes[name] != nil {
		return nil
	}
	volumeName, err := actual.caps.VolumeName(actual.spec)
	if err != nil {
		return err
	}
	actual.attaching = true
	if err := actual.caps.Attacher.Detach(ctx, volumeName, m.cfg.NodeName); err != nil {
		return err
	}
	delete(m.actual.volumes, name)
	return nil
}
