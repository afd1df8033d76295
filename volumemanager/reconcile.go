package volumemanager

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/executor"
)

// reconcile decides and acts on a volume. Operations requeue the volume when they end.
func (m *Manager) reconcile(_ context.Context, name corev1.UniqueVolumeName) error {
	if v := m.desired.volumes[name]; m.actual.volumes[name].mislabelled(v) {
		m.reportMislabelled(v)
	}
	for _, s := range decide(m.desired.volumes[name], m.actual.volumes[name], m.situationOf(name)) {
		switch s.verdict {
		case unmount:
			m.start(m.unmountOperation(name, s.pod))
		case attach:
			m.start(m.attachOperation(name))
		case markAttached:
			path, _ := m.devicePath(name)
			m.actual.add(m.desired.volumes[name], path)
			m.volumes.Add(name)
		case mount, remount:
			m.start(m.mountOperation(name, s.pod))
		case expand:
			m.start(m.expandOperation(name, s.pod))
		case unmountDevice:
			m.start(m.unmountDeviceOperation(name))
		case detach:
			m.start(m.detachOperation(name))
		case forget:
			delete(m.actual.volumes, name)
			m.cfg.ReportChanged()
		case awaitReport:
			m.cfg.ReportChanged()
		case awaitAttached, hold, nothing:
		}
	}
	return nil
}

// start starts an operation. A running one requeues the volume when it ends; one in back-off is
// retried after that.
func (m *Manager) start(op executor.Operation) {
	var backoff *executor.BackoffError
	if err := m.ops.Start(op); errors.As(err, &backoff) {
		m.volumes.AddAfter(op.Key.Volume, backoff.Remaining)
	}
}
