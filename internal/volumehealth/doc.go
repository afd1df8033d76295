// Package volumehealth reads what a CSI driver reports of a volume's health: the entries of CSI 1.13
// and the volume condition that earlier versions had.
//
//	c := volumehealth.OfEntries(response.GetVolumeHealth())
//	c, reported := volumehealth.Retired(response) // NodeGetVolumeStatsResponse, …
//	if c.Abnormal {
//		recorder.Event(claim, corev1.EventTypeWarning, "VolumeConditionAbnormal", c.Message)
//	}
//
// A driver built with CSI 1.12 or earlier sends volume_condition, whose field number CSI 1.13 has
// reserved. The message of the newer version keeps it among its unknown fields, where Retired finds
// it.
//
// What it does not do: it calls no driver.
//
// Upstream: container-storage-interface spec 1.12 VolumeCondition, 1.13 VolumeHealth.
package volumehealth
