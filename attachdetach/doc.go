// Package attachdetach is the AttachDetach controller: it attaches volumes to the nodes whose pods
// use them, and detaches them from all other nodes.
//
//	process := host.Process("attachdetach")
//	attachdetach.New(attachdetach.Config{
//		Process: process, Client: client, Informers: factory, Plugins: plugins,
//		Recorder: recorder, // of attachdetach.EventSource
//	})
//
// The controller keeps two models. The desired state of world records which volume is wanted on
// which node, and by which pods; it follows the pods, claims, volumes and nodes in the controller's
// caches. The actual state of world records where each volume is attached or may be attached, and
// whether the node uses it. It follows the results of the controller's own operations and the
// node.status.volumesInUse that kubelets write. (Each kubelet has two models of the same names with
// another meaning.)
//
// A sync reconciles the two models for one volume. Pure functions decide what can be detached and
// attached now, and why the rest cannot; an executor runs the operations. Attached volumes are
// reported to kubelets in node.status.volumesAttached. A volume is removed from that list before
// its detach begins.
//
// Nothing polls. A volume is queued when one of its pods, claims, volumes, nodes or operations
// changes, when a back-off has passed, and six minutes after it should have been unmounted. Plugins
// whose attachments have no VolumeAttachment objects are asked every minute whether their volumes
// are still attached.
//
// Caches can be stale. An attachment that is recorded as attached becomes uncertain as soon as the
// plugin sees that it is missing. An uncertain attachment is verified again after a successful
// operation. At the start the controller lists VolumeAttachments and nodes from the API server, and
// does not rely on its caches alone.
//
// Volumes of migrated in-tree plugins are translated to CSI first, whether a PersistentVolume or a
// pod names them.
//
// What it does not do: it ignores volumes without a registered plugin, and it has no metrics.
// Attachments to nodes without [ManagedAnnotation] are kept and detached as upstream does, but
// nothing is attached to such nodes.
//
// Upstream: pkg/controller/volume/attachdetach, and of pkg/volume/util/operationexecutor
// GenerateAttachVolumeFunc and GenerateDetachVolumeFunc (v1.36).
package attachdetach
