package invariant_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// crowd adds a scheduler, a node with one CPU, and the priority classes high and polite. Pods of polite
// are as important, and preempt none.
func (s *scene) crowd() {
	s.controller("scheduler")
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourcePods: resource.MustParse("10")}
	testcheck.Must(s.user.CoreV1().Nodes().Create(context.Background(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Status: corev1.NodeStatus{Capacity: list, Allocatable: list},
	}, createOptions))
	never := corev1.PreemptNever
	for _, class := range []*schedulingv1.PriorityClass{
		{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000},
		{ObjectMeta: metav1.ObjectMeta{Name: "polite"}, Value: 1000, PreemptionPolicy: &never},
	} {
		testcheck.Must(s.user.SchedulingV1().PriorityClasses().Create(context.Background(), class, createOptions))
	}
}

// podAsking adds a pod that requests CPU.
func (s *scene) podAsking(name, cpu, class, node string) {
	testcheck.Must(s.user.CoreV1().Pods("default").Create(context.Background(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{NodeName: node, PriorityClassName: class, Containers: []corev1.Container{{
			Name: "main", Image: "pause",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
		}}},
	}, createOptions))
}

func (s *scene) schedule(name string) {
	s.act("scheduler/binding", name, func(ctx context.Context, client kubernetes.Interface, _ *sim.Process) {
		if err := client.CoreV1().Pods("default").Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: "node-1"},
		}, createOptions); err != nil {
			panic(err)
		}
	})
}

func (s *scene) preempt(name string) {
	s.act("scheduler/preemption", name, func(ctx context.Context, client kubernetes.Interface, _ *sim.Process) {
		if err := client.CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			panic(err)
		}
	})
}

func TestPreemptionRule(t *testing.T) {
	const low = "scheduler/preemption preempted pod default/low of priority 0"
	playAll(t, []claimRow{
		{"I58", "for a pod of a higher priority", func(s *scene) {
			s.crowd()
			s.podAsking("low", "900m", "", "")
			s.schedule("low")
			s.podAsking("web", "900m", "high", "")
			s.preempt("low")
			s.schedule("web")
		}, ""},
		{"I58", "one that is being assigned", func(s *scene) {
			s.crowd()
			s.podAsking("low", "900m", "", "")
			s.podAsking("web", "900m", "high", "")
			s.preempt("low")
		}, ""},
		{"I58", "one that is not assigned, for none", func(s *scene) {
			s.crowd()
			s.podAsking("low", "900m", "", "")
			s.preempt("low")
		}, low},
		{"I58", "for a pod of the same priority", func(s *scene) {
			s.crowd()
			s.podAsking("low", "900m", "", "")
			s.schedule("low")
			s.podAsking("web", "900m", "", "")
			s.preempt("low")
		}, low},
		{"I58", "for a pod that preempts none", func(s *scene) {
			s.crowd()
			s.podAsking("low", "900m", "", "")
			s.schedule("low")
			s.podAsking("web", "900m", "polite", "")
			s.preempt("low")
		}, low},
		{"I58", "for a pod that has a node already", func(s *scene) {
			s.crowd()
			s.podAsking("low", "500m", "", "")
			s.schedule("low")
			s.podAsking("web", "500m", "high", "")
			s.schedule("web")
			s.preempt("low")
		}, low},
		{"I58", "for a pod that a user has assigned since", func(s *scene) {
			s.crowd()
			s.podAsking("low", "500m", "", "")
			s.schedule("low")
			s.podAsking("web", "500m", "high", "")
			if err := s.user.CoreV1().Pods("default").Bind(context.Background(), &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Name: "web"}, Target: corev1.ObjectReference{Kind: "Node", Name: "node-2"},
			}, createOptions); err != nil {
				panic(err)
			}
			s.preempt("low")
		}, ""},
		{"I58", "for a pod that is larger than the node", func(s *scene) {
			s.crowd()
			s.podAsking("low", "500m", "", "")
			s.schedule("low")
			s.podAsking("web", "2", "high", "")
			s.preempt("low")
		}, low},
		{"I58", "on a node that reports no resources", func(s *scene) {
			s.crowd()
			testcheck.Must(s.user.CoreV1().Nodes().Create(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-2"}}, createOptions))
			s.podAsking("low", "500m", "", "node-2")
			s.podAsking("web", "2", "high", "")
			s.preempt("low")
		}, ""},
		{"I58", "for a pod without room next to one of its priority", func(s *scene) {
			s.crowd()
			s.podAsking("low", "100m", "", "")
			s.schedule("low")
			s.podAsking("peer", "800m", "high", "")
			s.schedule("peer")
			s.podAsking("web", "300m", "high", "")
			s.preempt("low")
		}, low},
		{"I58", "one of its priority came later", func(s *scene) {
			s.crowd()
			s.podAsking("low", "100m", "", "")
			s.schedule("low")
			s.podAsking("web", "300m", "high", "")
			s.podAsking("peer", "800m", "high", "")
			s.schedule("peer")
			s.preempt("low")
		}, ""},
		{"I58", "a user assigned the one of its priority", func(s *scene) {
			s.crowd()
			s.podAsking("low", "100m", "", "")
			s.schedule("low")
			s.podAsking("peer", "800m", "high", "node-1")
			s.podAsking("web", "300m", "high", "")
			s.preempt("low")
		}, ""},
		{"I58", "the scheduler restarted with old lists", func(s *scene) {
			s.crowd()
			s.podAsking("low", "900m", "", "")
			s.schedule("low")
			s.inject("crash", "scheduler with pods one event behind")
			s.preempt("low")
		}, ""},
		{"I58", "a user deletes a pod", func(s *scene) {
			s.crowd()
			s.podAsking("low", "900m", "", "")
			s.schedule("low")
			if err := s.user.CoreV1().Pods("default").Delete(context.Background(), "low", metav1.DeleteOptions{}); err != nil {
				panic(err)
			}
		}, ""},
	})
}
