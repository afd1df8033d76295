// Package resizer is the external-resizer of one CSI driver: it expands volumes whose bound claims
// request more storage, and modifies those whose claims request another VolumeAttributesClass.
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
// A modification has its own queue, so a volume may be expanded and modified at once. Its target is
// recorded in the claim's status before the driver is called. While the driver may be at work on it,
// which is so after a non-final error and after a restart, another requested class has to wait. Then
// the class is written to the PersistentVolume, and to the claim's status. A claim whose class does
// not exist is Pending. A modification that the driver refuses as invalid is Infeasible: it is tried
// again every five minutes, or at once with another class.
//
// What it does not do: distinguishing volumes in use, volumes of in-tree plugins, leader election,
// and timeouts of driver calls.
//
// Upstream: external-resizer 2.3.0.
package resizer
