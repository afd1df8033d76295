package nodelifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// conditionTaints are the keys of the taints of a condition, by its type and status.
//
// Upstream: pkg/controller/nodelifecycle nodeConditionToTaintKeyStatusMap (v1.36).
var conditionTaints = map[corev1.NodeConditionType]map[corev1.ConditionStatus]string{
	corev1.NodeReady: {
		corev1.ConditionFalse: corev1.TaintNodeNotReady, corev1.ConditionUnknown: corev1.TaintNodeUnreachable,
	},
	corev1.NodeMemoryPressure:     {corev1.ConditionTrue: corev1.TaintNodeMemoryPressure},
	corev1.NodeDiskPressure:       {corev1.ConditionTrue: corev1.TaintNodeDiskPressure},
	corev1.NodeNetworkUnavailable: {corev1.ConditionTrue: corev1.TaintNodeNetworkUnavailable},
	corev1.NodePIDPressure:        {corev1.ConditionTrue: corev1.TaintNodePIDPressure},
}

// A taintID identifies a taint of a node.
type taintID struct {
	key    string
	effect corev1.TaintEffect
}

func idOf(t corev1.Taint) taintID { return taintID{t.Key, t.Effect} }

// unschedulable returns the NoSchedule taints that a node must have, by its conditions and its spec, in
// order.
//
// Upstream: pkg/controller/nodelifecycle doNoScheduleTaintingPass (v1.36).
func unschedulable(node *corev1.Node) []taintID {
	var want []taintID
	for _, c := range node.Status.Conditions {
		if key, tainted := conditionTaints[c.Type][c.Status]; tainted {
			want = append(want, taintID{key, corev1.TaintEffectNoSchedule})
		}
	}
	if node.Spec.Unschedulable {
		want = append(want, taintID{corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule})
	}
	return want
}

// scheduling reports whether the controller owns a taint with effect NoSchedule.
func scheduling(id taintID) bool {
	if id.effect != corev1.TaintEffectNoSchedule {
		return false
	}
	if id.key == corev1.TaintNodeUnschedulable {
		return true
	}
	for _, keys := range conditionTaints {
		if slices.Contains(slices.Collect(maps.Values(keys)), id.key) {
			return true
		}
	}
	return false
}

// evicting reports whether the controller owns a taint with effect NoExecute.
func evicting(id taintID) bool {
	return id.effect == corev1.TaintEffectNoExecute &&
		(id.key == corev1.TaintNodeNotReady || id.key == corev1.TaintNodeUnreachable)
}

// evictionTaint returns the taint that evicts the pods of a node in a state, and whether there is one.
func evictionTaint(ready corev1.ConditionStatus) (taintID, bool) {
	key, evicts := conditionTaints[corev1.NodeReady][ready]
	return taintID{key, corev1.TaintEffectNoExecute}, evicts
}

// tainted reports whether a node has a taint.
func tainted(node *corev1.Node, is func(id taintID) bool) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return is(idOf(t)) })
}

// taint makes the taints of a node that owns selects the wanted ones. It writes nothing if they are.
// It fails if the Node has changed since it was read.
//
// Differs: upstream adds and removes taints by one request each.
//
// Upstream: pkg/controller/util/node SwapNodeControllerTaint; pkg/controller AddOrUpdateTaintOnNode,
// RemoveTaintOffNode (v1.36).
func (c *controller) taint(ctx context.Context, node *corev1.Node, owns func(id taintID) bool, want []taintID) (*corev1.Node, error) {
	taints, changed := []corev1.Taint{}, false
	for _, t := range node.Spec.Taints {
		if owns(idOf(t)) && !slices.Contains(want, idOf(t)) {
			changed = true
			continue
		}
		taints = append(taints, t)
	}
	now := metav1.NewTime(c.process.Now())
	for _, id := range want {
		if !slices.ContainsFunc(taints, func(t corev1.Taint) bool { return idOf(t) == id }) {
			taints, changed = append(taints, corev1.Taint{Key: id.key, Effect: id.effect, TimeAdded: &now}), true
		}
	}
	if !changed {
		return node, nil
	}
	return c.patchNode(ctx, node.Name, map[string]any{
		"metadata": map[string]any{"resourceVersion": node.ResourceVersion}, "spec": map[string]any{"taints": taints},
	})
}

func (c *controller) patchNode(ctx context.Context, name string, change map[string]any) (*corev1.Node, error) {
	patch, err := json.Marshal(change)
	if err != nil {
		return nil, fmt.Errorf("patch of node %s: %w", name, err)
	}
	return c.client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
}

// betaLabels are labels with a former name, which follows them.
//
// Upstream: pkg/controller/nodelifecycle labelReconcileInfo (v1.36).
var betaLabels = [][2]string{
	{corev1.LabelOSStable, "beta.kubernetes.io/os"},
	{corev1.LabelArchStable, "beta.kubernetes.io/arch"},
}

// label writes the labels with former names, if necessary.
//
// Upstream: pkg/controller/nodelifecycle reconcileNodeLabels (v1.36).
func (c *controller) label(ctx context.Context, node *corev1.Node) error {
	change := map[string]any{}
	for _, names := range betaLabels {
		value, labelled := node.Labels[names[0]]
		if former, has := node.Labels[names[1]]; labelled && (!has || former != value) {
			change[names[1]] = value
		}
	}
	if len(change) == 0 {
		return nil
	}
	_, err := c.patchNode(ctx, node.Name, map[string]any{"metadata": map[string]any{"labels": change}})
	return err
}
