// Package nodevolumelimits is the plugin NodeVolumeLimits: a node has no more volumes of a CSI driver than
// its CSINode allows.
//
// A volume counts once, whether a pod on the node uses it, it is attached, or it is being attached or
// detached. A claim that waits for its volume counts for the driver of its class. Volumes of migrated
// in-tree plugins count for their CSI drivers.
//
// Upstream: pkg/scheduler/framework/plugins/nodevolumelimits (v1.36).
//
// Differs: an attached volume that the pod needs and no pod on the node uses counts once; upstream counts
// it twice. An ephemeral claim that does not belong to its pod on the node does not count; upstream's
// Filter fails. The CSINode is not checked for migration: in 1.36 all plugins are migrated.
package nodevolumelimits
