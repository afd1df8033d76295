package healthmonitor

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The reasons of the events, and the text of the one about recovery.
//
// Upstream: external-health-monitor pkg/csi-handler, pkg/util DefaultRecoveryEventMessage (0.18).
const (
	reasonAbnormal = "VolumeConditionAbnormal"
	reasonNormal   = "VolumeConditionNormal"
	messageNormal  = "The Volume returns to the healthy state"
)

// reportsOfClaims is the index of the events with these reasons by the UID of their object.
const reportsOfClaims = "reports"

func indexReport(obj any) ([]string, error) {
	event, ok := obj.(*corev1.Event)
	if !ok || event.Reason != reasonAbnormal && event.Reason != reasonNormal {
		return nil, nil
	}
	return []string{string(event.InvolvedObject.UID)}, nil
}

// isReportedAbnormal reports whether the last event about a claim's volume says that it is abnormal.
// The events tell, so that a restarted monitor reports a recovery too.
//
// Differs: a recovery is reported once; upstream reports it at each check until the abnormal event
// expires.
//
// Upstream: external-health-monitor pkg/csi-handler sendRecoveryEventToPVC (0.18).
func (c *controller) isReportedAbnormal(claim *corev1.PersistentVolumeClaim) bool {
	reports, err := c.events.ByIndex(reportsOfClaims, string(claim.UID))
	if err != nil {
		panic("healthmonitor: index of events: " + err.Error()) // it exists
	}
	var abnormal, normal metav1.Time
	for _, obj := range reports {
		event := obj.(*corev1.Event)
		last := &normal
		if event.Reason == reasonAbnormal && event.Type == corev1.EventTypeWarning {
			last = &abnormal
		}
		if last.Before(&event.LastTimestamp) {
			*last = event.LastTimestamp
		}
	}
	return normal.Before(&abnormal)
}
