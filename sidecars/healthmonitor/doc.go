// Package healthmonitor is the external-health-monitor controller of one CSI driver: it asks the
// driver for the health of its volumes and reports abnormal ones as events on their claims.
//
//	process := host.Process("healthmonitor")
//	healthmonitor.New(healthmonitor.Config{
//		Process: process, Client: client, Informers: factory, Recorder: recorder,
//		DriverName: "disk.example.com", Conn: csi.Suspend(process, "disk.example.com", conn),
//	})
//
// A driver with LIST_VOLUME_HEALTH is asked for all volumes every five minutes, one with
// GET_VOLUME_HEALTH only for each volume every minute. Drivers of CSI 1.12 and earlier report the
// volume condition by ListVolumes or ControllerGetVolume instead. An abnormal volume gives the event
// VolumeConditionAbnormal at each check, and VolumeConditionNormal when it has recovered. The node
// watcher, which is optional, reports claims whose pods are on a node that has been NotReady for
// five minutes, or is deleted.
//
// All checks are in the background: a stepped world in which nothing else happens is at rest after
// one check. Recorder must be periodic (events.Config.Periodic) for that.
//
// What it does not do: leader election, and timeouts of driver calls.
//
// Upstream: external-health-monitor 0.18.
package healthmonitor
