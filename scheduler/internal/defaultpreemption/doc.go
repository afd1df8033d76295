// Package defaultpreemption is the plugin DefaultPreemption: a pod that fits on no node takes the place of
// pods of lower priority.
//
// PostFilter supposes on each node that is rejected, but not for good, that all pods of lower priority are
// gone. If the pod fits then, as many of them as possible stay, first those whose disruption budget is
// exhausted, then the more important ones. The rest are the victims. Of the nodes, the one is chosen whose victims
// matter least. It is the pod's nominated node; the victims are deleted by a task of its own, one after the
// other, and meanwhile PreEnqueue keeps the pod out of the queue.
//
// Upstream: pkg/scheduler/framework/plugins/defaultpreemption, pkg/scheduler/framework/preemption (v1.36),
// with the feature SchedulerAsyncPreemption, which is on.
//
// Differs:
//   - The nodes are looked at one after the other, from the first on; upstream starts anywhere. Of equal nodes the
//     first is chosen; upstream chooses any.
//   - Disruption budgets are listed when they are needed; upstream has a cache of them.
//   - Victims are deleted one after the other, by UID. Upstream deletes all but the last at once, by name. The first
//     failure ends the preemption; upstream repeats a request that failed for a moment.
//   - There are no pod groups: the features TopologyAwareWorkloadScheduling and WorkloadAwarePreemption are off.
package defaultpreemption
