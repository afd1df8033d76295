// Package resizer is the external-resizer of one CSI driver: it expands volumes whose bound claims
// request more storage.
//
//	process := host.Process("resizer")
//	resizer.New(resizer.Config{
//		Process: process, Client: client, Informers: factory, Recorder: recorder,
//		DriverName: "disk.example.com", Conn: csi.Suspend(process, "disk.example.com", conn),
//	})
//
// The resizer calls the driver's controller service, then writes the new size to the
// PersistentVolume. If the driver requires node expansion, it leaves the rest to the kubelets that
// use the volume.
//
// Progress is recorded in the claim's status (package resize). After a restart or a new request the
// resizer continues from there: an expansion that has started is finished first, unless it failed
// finally.
//
// What it does not do: other volume modifications, distinguishing volumes in use, volumes of
// in-tree plugins, leader election, and timeouts of driver calls.
//
// Upstream: external-resizer 2.3.0.
package resizer
