package kubelet

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/sim"
)

// reasonLimit is the reason for rejecting a pod whose volume exceeds the node's attach limit.
//
// Upstream: pkg/kubelet/volumemanager VolumeAttachmentLimitExceededReason (v1.36).
const reasonLimit = "VolumeAttachmentLimitExceeded"

// A rejection says why a pod cannot run on this node.
type rejection struct {
	reason, message string
	reported        bool
}

// watchLimits starts the periodic refresh of the drivers' attach limits, with the period of their
// CSIDriver objects.
//
// Upstream: pkg/volume/csi csiNodeUpdater (v1.36).
func (k *Kubelet) watchLimits() {
	k.limits = sim.NewQueue[string](k.cfg.Process, sim.QueueConfig{Name: "driver limits", Background: true})
	k.limits.Work(k.syncLimits)
	again := func(driver *storagev1.CSIDriver) {
		if period := k.csi.UpdatePeriod(driver.Name); period > 0 && k.periods[driver.Name] == 0 {
			k.periods[driver.Name] = period
			k.limits.AddAfter(driver.Name, period)
		}
	}
	eventhandler.Add(k.cfg.Informers.Storage().V1().CSIDrivers().Informer(),
		func(_, driver *storagev1.CSIDriver) {
			again(driver)
			k.volumes.DriversChanged()
		}, nil)
}

// syncLimits refreshes the limit of one driver and schedules the next refresh. The period may have
// changed meanwhile.
func (k *Kubelet) syncLimits(ctx context.Context, driver string) error {
	period := k.csi.UpdatePeriod(driver)
	k.periods[driver] = period
	if period == 0 {
		return nil
	}
	k.limits.AddAfter(driver, period)
	return k.csi.Refresh(ctx, driver)
}

// reportRejected reports, once, that a pod has failed.
//
// Upstream: pkg/kubelet rejectPod (v1.36).
func (k *Kubelet) reportRejected(ctx context.Context, pod *corev1.Pod, r *rejection) error {
	if r.reported {
		return nil
	}
	err := k.reportPod(ctx, pod, corev1.PodStatus{
		Phase: corev1.PodFailed, Reason: r.reason, Message: "Pod was rejected: " + r.message,
	}, "")
	if err == nil {
		r.reported = true
		k.recorder.Event(pod, corev1.EventTypeWarning, r.reason, r.message)
	}
	return err
}
