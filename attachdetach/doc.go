// Package attachdetach is the AttachDetach controller: it has volumes attached to the nodes whose pods want them, and
// detached from the others.
//
// It holds two pictures. The [desiredStateOfWorld] says which volume is wanted on which node, and by which pods; it
// follows the pods, claims, volumes and nodes in the controller's caches. The [actualStateOfWorld] says where each volume
// is attached, for certain or perhaps, and whether the node still uses it; it follows the outcomes of what this controller
// does and what kubelets write to node.status.volumesInUse. (Each kubelet has two pictures of the same names, which are
// other things.) [Controller.syncVolume] brings one volume's two pictures together: it decides, in pure functions, what may be
// detached and attached now and why the rest may not, and starts operations of an executor. What is attached is told to
// the kubelets in node.status.volumesAttached, and taken back there before a detach begins.
//
// Nothing polls: a volume is looked at when a pod, claim, volume, node or operation of it changed, when a back-off has
// passed, and six minutes after it should have been unmounted. Plugins whose attachments show in no VolumeAttachment are asked
// each minute whether volumes are attached still.
//
// What this controller sees may be old. An attachment that it took for certain and that the plugin saw to be none becomes
// uncertain at once; what was uncertain is asked for once more when an operation on it has succeeded; and it starts from
// the VolumeAttachments that there are and from what the nodes are told, not from its caches alone.
//
// Volumes of in-tree plugins that are migrated are translated to CSI before anything else is done with them, whether a
// PersistentVolume or the pod names them.
//
// Not here: volumes of no plugin of the manager's, metrics. Attachments of nodes without the annotation are kept and detached
// as upstream does, but nothing is attached to such nodes.
//
// Upstream: pkg/controller/volume/attachdetach, and of pkg/volume/util/operationexecutor GenerateAttachVolumeFunc and
// GenerateDetachVolumeFunc (v1.36).
package attachdetach
