// Package provisioner is the external-provisioner of one CSI driver: it provisions a volume for
// each claim of the driver, and deletes released volumes.
//
//	process := host.Process("provisioner")
//	provisioner.New(provisioner.Config{
//		Process: process, Client: client, Informers: factory, Recorder: recorder,
//		DriverName: "disk.example.com", Conn: csi.Suspend(process, "disk.example.com", conn),
//	})
//
// [New] registers handlers for claims, volumes, classes and attachments. A claim becomes a
// CreateVolume call, whose answer becomes a PersistentVolume. A released PersistentVolume becomes a
// DeleteVolume call, then the deletion of the object. Decisions are functions of objects (claim.go,
// volume.go, class.go). Actions are single driver calls or API requests; each may fail and is then
// retried from the state of the API server.
//
// A failed CreateVolume call may still have had its effect. It is repeated with the same request
// until its result is known, whatever happens to the claim meanwhile. A provisioned volume gets its
// PersistentVolume, however long saving takes. A volume therefore never leaks, unless this process
// crashes between the call and the save; upstream has the same gap.
//
// With [Config].Topology the driver receives where a volume must be accessible, and its answer
// states on which nodes the volume is. A claim whose volume is being cloned is kept until the clone
// exists.
//
// A claim with a VolumeAttributesClass is provisioned with the parameters of that class, if the
// driver has MODIFY_VOLUME. Later changes of the class name are the external-resizer's.
//
// With [Config].CapacityNamespace the free capacity of the driver is published in CSIStorageCapacity objects
// (capacity.go). They are refreshed after changes of volumes, and periodically.
//
// With [Config].NodeDeployment one provisioner runs on each node (nodedeployment.go).
//
// What it does not do: migration from in-tree plugins, leader election (internal/leaderelection), and timeouts of
// driver calls.
//
// Upstream: external-provisioner 6.3.0, sig-storage-lib-external-provisioner v13.0.0.
package provisioner
