package framework_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

func TestNodeChanges(t *testing.T) {
	for name, test := range map[string]struct {
		change func(n *corev1.Node)
		want   framework.ActionType
	}{
		"nothing":     {func(*corev1.Node) {}, 0},
		"label":       {func(n *corev1.Node) { n.Labels = map[string]string{"a": "b"} }, framework.UpdateNodeLabel},
		"annotation":  {func(n *corev1.Node) { n.Annotations = map[string]string{"a": "b"} }, framework.UpdateNodeAnnotation},
		"taint":       {func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "a"}} }, framework.UpdateNodeTaint},
		"cordoned":    {func(n *corev1.Node) { n.Spec.Unschedulable = true }, 0},
		"allocatable": {func(n *corev1.Node) { n.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("1")} }, framework.UpdateNodeAllocatable},
		"condition": {func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		}, framework.UpdateNodeCondition},
		"volumes in use": {func(n *corev1.Node) { n.Status.VolumesInUse = []corev1.UniqueVolumeName{"v"} }, 0},
	} {
		after := node("a", "")
		test.change(after)
		if got := framework.NodeChanges(node("a", ""), after); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
	cordoned := node("a", "")
	cordoned.Spec.Unschedulable = true
	if got := framework.NodeChanges(cordoned, node("a", "")); got != framework.UpdateNodeTaint {
		t.Errorf("uncordoned: %d", got)
	}
}

func TestPodChanges(t *testing.T) {
	requests := func(cpu string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
		}
	}
	none := func(*corev1.Pod) {}
	for name, test := range map[string]struct {
		before, after func(p *corev1.Pod)
		want          framework.ActionType
	}{
		"status":     {none, func(p *corev1.Pod) { p.Status.Message = "x" }, framework.UpdateOther},
		"label":      {none, func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }, framework.UpdatePodLabel},
		"toleration": {none, func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{}} }, framework.UpdatePodToleration},
		"gates": {
			func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} }, none,
			framework.UpdatePodSchedulingGatesEliminated,
		},
		"less":      {requests("2"), requests("1"), framework.UpdatePodScaleDown},
		"more":      {requests("1"), requests("2"), framework.UpdateOther},
		"no more":   {requests("1"), none, framework.UpdatePodScaleDown},
		"at first":  {none, requests("1"), framework.UpdateOther},
		"unchanged": {requests("1"), requests("1000m"), framework.UpdateOther},
	} {
		before, after := pod("p", ""), pod("p", "")
		test.before(before)
		test.after(after)
		if got := framework.PodChanges(before, after); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}
