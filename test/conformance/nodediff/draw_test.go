package nodediff

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/test/conformance/histories"
)

// userKeys are the keys of taints that users set.
var userKeys = []string{"k1", "k2", corev1.TaintNodeOutOfService}

// drawNodes draws one node of the first most, or several.
func drawNodes(t *rapid.T, most int) []int {
	nodes := rapid.SliceOfNDistinct(rapid.IntRange(1, most), 1, most, rapid.ID[int]).Draw(t, "nodes")
	slices.Sort(nodes)
	return nodes
}

func drawPodName(t *rapid.T) string { return histories.OneOf("a", "b", "c", "d").Draw(t, "pod") }

var drawTaint = rapid.Custom(func(t *rapid.T) corev1.Taint {
	return corev1.Taint{
		Key: rapid.SampledFrom(userKeys).Draw(t, "key"), Value: histories.OneOf("", "v").Draw(t, "value"),
		Effect: histories.OneOf(corev1.TaintEffectNoExecute, corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule).Draw(t, "effect"),
	}
})

// drawTaints draws taints of which no two have the same key.
func drawTaints(t *rapid.T) []corev1.Taint {
	return rapid.SliceOfNDistinct(drawTaint, 0, 2, func(t corev1.Taint) string { return t.Key }).Draw(t, "taints")
}

// drawToleration draws a toleration. Its times are between those at which the kubelets act.
var drawToleration = rapid.Custom(func(t *rapid.T) corev1.Toleration {
	key := histories.OneOf("k1", "k1", "k2", corev1.TaintNodeOutOfService, "").Draw(t, "key")
	one := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	if key != "" && histories.OneIn(t, 3, "with a value") {
		one.Operator, one.Value = corev1.TolerationOpEqual, "v"
	}
	if seconds := histories.OneOf[int64](33, 147, 263, 0, -1, 999).Draw(t, "seconds"); seconds != 999 {
		one.TolerationSeconds = ptr.To(seconds)
	} else if histories.OneIn(t, 2, "of any effect") {
		one.Effect = ""
	}
	return one
})

func drawPods(t *rapid.T, nodes int, tolerations bool) createPods {
	c := createPods{names: []string{drawPodName(t)}, node: rapid.IntRange(1, nodes).Draw(t, "node")}
	if tolerations {
		c.tolerations = rapid.SliceOfN(drawToleration, 0, 3).Draw(t, "tolerations")
	}
	return c
}

func drawStatus(t *rapid.T) corev1.ConditionStatus {
	return histories.OneOf(corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown).Draw(t, "status")
}

// drawStep draws a step: an act of a kind, in one of so many while the controllers restart, and perhaps with a
// fault of a request.
func drawStep(t *rapid.T, draw func(kind string) act, kinds []string, restarts int, faults []histories.Fault) step {
	s := step{Act: draw(rapid.SampledFrom(kinds).Draw(t, "act"))}
	if histories.OneIn(t, restarts, "restart") {
		s.Act = restart{Meanwhile: s.Act}
	}
	if histories.OneIn(t, 8, "faulty") {
		s.Fault = rapid.SampledFrom(faults).Draw(t, "fault")
	}
	return s
}

var drawTaintEviction = rapid.Custom(func(t *rapid.T) history {
	const nodes = 2
	draw := rapid.Custom(func(t *rapid.T) step {
		return drawStep(t, func(kind string) act {
			switch kind {
			case "taint":
				taints := drawTaints(t)
				return editNodes{drawNodes(t, nodes), fmt.Sprintf("taints %v", taintTexts(taints)), setTaints(taints)}
			case "create":
				return drawPods(t, nodes, true)
			case "bind":
				return bindPod{drawPodName(t), rapid.IntRange(1, nodes).Draw(t, "node")}
			case "pending":
				c := drawPods(t, nodes, true)
				c.node = 0
				return c
			case "tolerate":
				one := drawToleration.Draw(t, "toleration")
				return editPod{drawPodName(t), "also tolerates " + tolerationText(one), false, func(pod *corev1.Pod) {
					pod.Spec.Tolerations = append(pod.Spec.Tolerations, one)
				}}
			case "delete":
				return deletePod{drawPodName(t), histories.OneIn(t, 2, "at once")}
			case "node":
				return deleteNodes{drawNodes(t, nodes), histories.OneOf(0, 20*time.Second).Draw(t, "again")}
			case "nodes":
				return createNodes{nodes: drawNodes(t, nodes), zone: "a", taints: drawTaints(t)}
			case "silence":
				return silence{drawNodes(t, nodes), histories.OneIn(t, 2, "silent")}
			default:
				return wait{}
			}
		}, []string{
			"taint", "taint", "taint", "create", "create", "create", "tolerate", "tolerate", "pending", "bind",
			"bind", "delete", "node", "nodes", "silence", "wait",
		}, 10, []histories.Fault{{Kind: sim.FaultLost, Request: "patch/status pods"}, {Kind: sim.FaultLost, Request: "delete pods"}})
	})
	h := history{{Act: createNodes{nodes: []int{1, 2}, zone: "a"}}}
	for _, name := range []string{"a", "b"} {
		c := drawPods(t, nodes, true)
		c.names = []string{name}
		h = append(h, step{Act: c})
	}
	return append(h, histories.DrawSteps(t, draw, 5, 3)...)
})

var drawPodGC = rapid.Custom(func(t *rapid.T) history {
	const nodes = 3
	draw := rapid.Custom(func(t *rapid.T) step {
		return drawStep(t, func(kind string) act {
			switch kind {
			case "taint":
				taints := drawTaints(t)
				return editNodes{drawNodes(t, nodes), fmt.Sprintf("taints %v", taintTexts(taints)), setTaints(taints)}
			case "report":
				return report{drawNodes(t, nodes), corev1.NodeReady, drawStatus(t)}
			case "create":
				c := drawPods(t, nodes, false)
				c.finalizer = histories.OneIn(t, 3, "finalizer")
				return c
			case "pending":
				return createPods{names: []string{drawPodName(t)}, finalizer: true}
			case "bind":
				return bindPod{drawPodName(t), rapid.IntRange(1, nodes).Draw(t, "node")}
			case "end":
				phase := histories.OneOf(corev1.PodSucceeded, corev1.PodFailed).Draw(t, "phase")
				reason := histories.OneOf("", "Evicted").Draw(t, "reason")
				return editPod{drawPodName(t), fmt.Sprintf("is %s %s", phase, reason), true, func(pod *corev1.Pod) {
					pod.Status.Phase, pod.Status.Reason = phase, reason
				}}
			case "unkept":
				return editPod{drawPodName(t), "has no finalizer", false, func(pod *corev1.Pod) { pod.Finalizers = nil }}
			case "delete":
				return deletePod{drawPodName(t), histories.OneIn(t, 4, "at once")}
			case "node":
				return deleteNodes{drawNodes(t, nodes), histories.OneOf(0, 0, 30*time.Second).Draw(t, "again")}
			case "nodes":
				return createNodes{nodes: drawNodes(t, nodes), zone: "a"}
			case "silence":
				return silence{drawNodes(t, nodes), !histories.OneIn(t, 3, "silent")}
			default:
				return wait{}
			}
		}, []string{
			"taint", "taint", "report", "report", "create", "create", "create", "create", "pending", "bind",
			"end", "end", "end", "unkept", "delete", "delete", "delete", "node", "node", "nodes", "silence",
			"silence", "wait",
		}, 10, []histories.Fault{
			{Kind: sim.FaultRefused, Request: "patch/status pods"},
			{Kind: sim.FaultRefused, Request: "delete pods"},
			{Kind: sim.FaultLost, Request: "patch/status pods"},
			{Kind: sim.FaultLost, Request: "delete pods"},
		})
	})
	h := history{{Act: createNodes{nodes: []int{1, 2}, zone: "a"}}}
	return append(h, histories.DrawSteps(t, draw, 5, 4)...)
})

// drawZone draws a zone. Most nodes are in the first one, so that it can be partially disrupted.
func drawZone(t *rapid.T) string { return histories.OneOf("a", "a", "a", "b", "c").Draw(t, "zone") }

var drawNodeLifecycle = rapid.Custom(func(t *rapid.T) history {
	const nodes = 6
	draw := rapid.Custom(func(t *rapid.T) step {
		return drawStep(t, func(kind string) act {
			switch kind {
			case "silence":
				return silence{drawNodes(t, nodes), true}
			case "return":
				return silence{drawNodes(t, nodes), false}
			case "report":
				return report{drawNodes(t, nodes), corev1.NodeReady, drawStatus(t)}
			case "pressure":
				kind := histories.OneOf(corev1.NodeDiskPressure, corev1.NodeMemoryPressure, corev1.NodePIDPressure).Draw(t, "kind")
				return report{drawNodes(t, nodes), kind, histories.OneOf(corev1.ConditionTrue, corev1.ConditionFalse).Draw(t, "status")}
			case "cordon":
				on := !histories.OneIn(t, 3, "off")
				return editNodes{drawNodes(t, nodes), fmt.Sprintf("unschedulable %v", on), func(node *corev1.Node) { node.Spec.Unschedulable = on }}
			case "taint":
				taints := drawTaints(t)
				return editNodes{drawNodes(t, nodes), fmt.Sprintf("taints %v", taintTexts(taints)), setTaints(taints)}
			case "label":
				key := histories.OneOf("node.kubernetes.io/exclude-disruption", corev1.LabelOSStable, corev1.LabelArchStable, "beta.kubernetes.io/os").Draw(t, "key")
				value := histories.OneOf("x", "y").Draw(t, "value")
				return editNodes{drawNodes(t, nodes), "label " + key + "=" + value, func(node *corev1.Node) { node.Labels[key] = value }}
			case "pod":
				return drawPods(t, nodes, false)
			case "pending":
				return createPods{names: []string{drawPodName(t)}}
			case "bind":
				return bindPod{drawPodName(t), rapid.IntRange(1, nodes).Draw(t, "node")}
			case "node":
				return deleteNodes{drawNodes(t, nodes), histories.OneOf(0, 17*time.Second).Draw(t, "again")}
			case "nodes":
				return createNodes{nodes: drawNodes(t, nodes), zone: drawZone(t), silent: histories.OneIn(t, 3, "silent")}
			default:
				return wait{}
			}
		}, []string{
			"silence", "silence", "silence", "return", "return", "report", "report", "pressure", "cordon",
			"taint", "label", "pod", "pod", "pending", "bind", "node", "nodes", "wait",
		}, 30, []histories.Fault{{Kind: sim.FaultRefused, Request: "update/status pods"}, {Kind: sim.FaultLost, Request: "patch nodes"}})
	})
	h := history{
		{Act: createNodes{nodes: []int{1, 2, 3, 4}, zone: "a"}},
		{Act: createNodes{nodes: []int{5}, zone: "b"}},
		{Act: createPods{names: []string{"a", "b"}, node: 1}},
	}
	return append(h, histories.DrawSteps(t, draw, 5, 3)...)
})
