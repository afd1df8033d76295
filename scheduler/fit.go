package scheduler

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

// The reasons why a node is not feasible.
//
// Upstream:
// plugins/{nodeunschedulable,tainttoleration,nodeaffinity,volumerestrictions,nodevolumelimits,volumebinding}
// (v1.36), to the letter.
const (
	reasonUnschedulable    = "node(s) were unschedulable"
	reasonTaint            = "node(s) had untolerated taint(s)"
	reasonAffinity         = "node(s) didn't match Pod's node affinity/selector"
	reasonReadWriteOncePod = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
	reasonLimit            = "node(s) exceed max volume count"
	reasonVolumeAffinity   = "node(s) didn't match PersistentVolume's node affinity"
	reasonNoVolume         = "node(s) didn't find available persistent volumes to bind"
	reasonVolumeGone       = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
)

// unfit returns the reasons why a pod cannot run on a node, or none.
func unfit(pod *corev1.Pod, node *corev1.Node, claims podClaims, from state) []string {
	if reason := nodeUnfit(pod, node); reason != "" {
		return []string{reason}
	}
	if conflictsReadWriteOncePod(pod, claims, from) {
		return []string{reasonReadWriteOncePod}
	}
	if exceedsLimit(pod, node, from) {
		return []string{reasonLimit}
	}
	return volumesUnfit(node, claims, from)
}

// conflictsReadWriteOncePod reports whether another pod uses one of the pod's ReadWriteOncePod
// claims. Claims are compared by namespace and name.
//
// Upstream: plugins/volumerestrictions satisfyReadWriteOncePod (v1.36).
func conflictsReadWriteOncePod(pod *corev1.Pod, claims podClaims, from objects) bool {
	return slices.ContainsFunc(slices.Concat(claims.bound, claims.delayed),
		func(claim *corev1.PersistentVolumeClaim) bool {
			return slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod) && from.inUse(claim, pod.UID)
		})
}

// volumesUnfit returns the reasons why a pod's volumes cannot be used on a node.
//
// Upstream: plugins/volumebinding FindPodVolumes, checkBoundClaims, checkVolumeProvisions (v1.36).
//
// Differs: it matches no existing volumes, and does not check storage capacity.
func volumesUnfit(node *corev1.Node, claims podClaims, from objects) []string {
	var reasons []string
	for _, claim := range claims.bound {
		volume := from.volume(claim.Spec.VolumeName)
		if volume == nil {
			return []string{reasonVolumeGone}
		}
		if storagehelpers.CheckNodeAffinity(volume, node.Labels) != nil {
			reasons = append(reasons, reasonVolumeAffinity)
			break
		}
	}
	for _, claim := range claims.delayed {
		if !mayProvision(claim, node, from) {
			return append(reasons, reasonNoVolume)
		}
	}
	return reasons
}

// mayProvision reports whether a delayed claim's volume can be provisioned for a node.
func mayProvision(claim *corev1.PersistentVolumeClaim, node *corev1.Node, from objects) bool {
	if chosen, ok := claim.Annotations[storagehelpers.AnnSelectedNode]; ok && chosen != node.Name {
		return false
	}
	class := from.class(storagehelpers.GetPersistentVolumeClaimClass(claim))
	return class.Provisioner != "" && class.Provisioner != storagehelpers.NotSupportedProvisioner &&
		matchesTopology(class.AllowedTopologies, node.Labels)
}

// matchesTopology reports whether a node's labels match any of the terms. Without terms it returns
// true.
//
// Upstream: pkg/apis/core/v1/helper MatchTopologySelectorTerms (v1.36).
func matchesTopology(terms []corev1.TopologySelectorTerm, labels map[string]string) bool {
	return len(terms) == 0 || slices.ContainsFunc(terms, func(term corev1.TopologySelectorTerm) bool {
		mismatch := func(r corev1.TopologySelectorLabelRequirement) bool {
			value, ok := labels[r.Key]
			return !ok || !slices.Contains(r.Values, value)
		}
		return len(term.MatchLabelExpressions) > 0 && !slices.ContainsFunc(term.MatchLabelExpressions, mismatch)
	})
}

// choose returns the first feasible node. If there is none, node is nil and message contains the
// reasons.
//
// Upstream: pkg/scheduler/framework FitError (v1.36).
//
// Differs: upstream scores the feasible nodes. The message does not mention preemption.
func choose(nodes []*corev1.Node, unfit func(*corev1.Node) []string) (node *corev1.Node, message string) {
	if len(nodes) == 0 {
		return nil, "no nodes available to schedule pods"
	}
	counts := map[string]int{}
	for _, node := range nodes {
		reasons := unfit(node)
		if len(reasons) == 0 {
			return node, ""
		}
		for _, reason := range reasons {
			counts[reason]++
		}
	}
	parts := make([]string, 0, len(counts))
	for reason, n := range counts {
		parts = append(parts, fmt.Sprintf("%d %s", n, reason))
	}
	slices.Sort(parts)
	return nil, unschedulableMessage(len(nodes), strings.Join(parts, ", "))
}

// unschedulableMessage returns upstream's message for a pod without a feasible node.
func unschedulableMessage(nodes int, why string) string {
	if nodes == 0 {
		return "no nodes available to schedule pods"
	}
	return fmt.Sprintf("0/%d nodes are available: %s.", nodes, why)
}
