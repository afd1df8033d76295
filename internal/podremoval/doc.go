// Package podremoval marks pods as the target of a disruption and deletes them.
//
//	err := podremoval.Delete(ctx, client, pod, podremoval.Options{
//		Force: true, Phase: corev1.PodFailed, Reason: "DeletionByPodGC", Message: "PodGC: node no longer exists",
//	})
//
// A removal is at most two requests: a patch of the pod's status, if there is something to mark, and
// its deletion. Both have the UID of the pod, so another pod of its name is left alone. After a conflict
// it reads whether the pod still exists.
//
// # What it does not do
//
// It does not set the observed generation of a pod's status or conditions: not all versions of the
// API have the fields. It retries nothing.
//
// Upstream: pkg/util/pod PatchPodStatus, pkg/controller/podgc markFailedAndDeletePodWithCondition,
// pkg/controller/tainteviction addConditionAndDeletePod (v1.36).
package podremoval
