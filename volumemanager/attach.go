package volumemanager

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/executor"
)

// attachOperation attaches a volume to this node, where the kubelet does so itself.
//
// Upstream: pkg/volume/util/operationexecutor GenerateAttachVolumeFunc (v1.36).
func (m *Manager) attachOperation(name corev1.UniqueVolumeName) executor.Operation {
	return executor.Operation{
		Key: executor.Key{Volume: name}, Name: executor.Attach,
		Run: func(ctx context.Context) error { return m.attach(ctx, name) },
	}
}

func (m *Manager) attach(ctx context.Context, name corev1.UniqueVolumeName) error {
	wanted := m.desired.volumes[name]
	if wanted == nil {
		return nil
	}
	path, err := wanted.caps.Attacher.Attach(ctx, wanted.pods[wanted.podsAfter("")[0]].spec, m.cfg.NodeName)
	if err != nil {
		return err
	}
	if wanted := m.desired.volumes[name]; wanted != nil {
		m.actual.add(wanted, path)
	}
	return nil
}

// detachOperation detaches a volume from this node, where the kubelet does so itself.
//
// Upstream: pkg/volume/util/operationexecutor GenerateDetachVolumeFunc (v1.36).
func (m *Manager) detachOperation(name corev1.UniqueVolumeName) executor.Operation {
	return executor.Operation{
		Key: executor.Key{Volume: name}, Name: executor.Detach,
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
	if err := actual.caps.Attacher.Detach(ctx, volumeName, m.cfg.NodeName); err != nil {
		return err
	}
	delete(m.actual.volumes, name)
	return nil
}
