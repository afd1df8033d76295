package scheduler_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

// withCPU is a node with one CPU.
func withCPU(node *corev1.Node) {
	list := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi"), corev1.ResourcePods: resource.MustParse("10"),
	}
	node.Status.Allocatable, node.Status.Capacity = list, list
}

// asking returns a pod that requests CPU, of a priority class; "": none.
func asking(name, cpu, class string) *corev1.Pod {
	pod := newPod(name)
	pod.Spec.PriorityClassName = class
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	return pod
}

// newCrowd returns a world with nodes and priority classes, whose kubelet ends deleted pods.
func newCrowd(t *testing.T, chooser sim.Chooser, nodes ...string) *world {
	t.Helper()
	w := newWorld(t, chooser)
	w.StartKubelet(func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "" })
	for name, value := range map[string]int32{"high": 1000, "higher": 2000} {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
		if _, err := w.User.SchedulingV1().PriorityClasses().Create(context.Background(), class, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range nodes {
		w.create(newNode(name, withCPU))
	}
	return w
}

// The texts are those of the real kube-scheduler in the same world.
func TestPreemption(t *testing.T) {
	w := newCrowd(t, nil, "node-1", "node-2")
	w.create(asking("low-1", "900m", ""))
	w.Run()
	w.create(asking("low-2", "900m", ""))
	w.Run()
	var victim *corev1.Pod
	w.Server.OnCommit(func(commit fake.Commit) {
		if pod, ok := commit.After.(*corev1.Pod); ok && commit.Type == watch.Deleted {
			victim = pod
		}
	})
	w.create(asking("high", "500m", "high"))
	w.Run()
	high := w.pod("high")
	if victim == nil || high.Spec.NodeName != victim.Spec.NodeName || high.Status.NominatedNodeName != "" {
		t.Fatalf("high is on %q, nominated %q; the victim is %v\n%s", high.Spec.NodeName, high.Status.NominatedNodeName, victim, w.Host.Log().Text())
	}
	i := slices.IndexFunc(victim.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget })
	if i < 0 {
		t.Fatalf("conditions of the victim: %v", victim.Status.Conditions)
	}
	want := corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, ObservedGeneration: 1, Reason: "PreemptionByScheduler",
		Message:            "default-scheduler: preempting to accommodate a higher priority pod",
		LastTransitionTime: victim.Status.Conditions[i].LastTransitionTime,
	}
	if diff := cmp.Diff(want, victim.Status.Conditions[i]); diff != "" {
		t.Errorf("condition of the victim (-want +got):\n%s", diff)
	}
	wantEvents := []string{
		"Preempted: Preempted by pod " + string(high.UID) + " on node " + high.Spec.NodeName,
		"Scheduled: Successfully assigned default/" + victim.Name + " to " + high.Spec.NodeName,
	}
	if diff := cmp.Diff(wantEvents, w.events(victim.Name)); diff != "" {
		t.Errorf("events of the victim (-want +got):\n%s", diff)
	}
	wantEvents = []string{
		"FailedScheduling: 0/2 nodes are available: 2 Insufficient cpu.",
		"Scheduled: Successfully assigned default/high to " + high.Spec.NodeName,
	}
	if diff := cmp.Diff(wantEvents, w.events("high")); diff != "" {
		t.Errorf("events of the pod (-want +got):\n%s", diff)
	}
}

// The texts are those of the real kube-scheduler in the same worlds.
func TestPreemptionThatDoesNotHelp(t *testing.T) {
	w := newCrowd(t, nil, "node-1", "node-2")
	w.create(asking("low", "900m", ""), asking("big", "64", "high"))
	w.Run()
	w.create(asking("second", "900m", ""))
	w.Run()
	w.create(asking("third", "900m", ""), newPod("lost", "none"))
	w.Run()
	for name, want := range map[string]string{
		"big":   "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
		"third": "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.",
		"lost":  `0/2 nodes are available: persistentvolumeclaim "none" not found. not found`,
	} {
		if diff := cmp.Diff([]string{"FailedScheduling: " + want}, w.events(name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// In every schedule the most important pods run in the end, and none of them is preempted.
func TestPreemptionUnderSchedules(t *testing.T) {
	for seed := range uint64(100) {
		w := newCrowd(t, sim.NewSeeded(seed), "node-1", "node-2")
		preempted := map[string]bool{}
		w.Server.OnCommit(func(commit fake.Commit) {
			if pod, ok := commit.After.(*corev1.Pod); ok && commit.Type == watch.Deleted {
				preempted[pod.Name] = true
			}
		})
		c := w.Host.Process("user")
		client := w.Server.Client(c).CoreV1().Pods("default")
		for _, pod := range []*corev1.Pod{
			asking("low-1", "400m", ""), asking("low-2", "400m", ""), asking("low-3", "400m", ""),
			asking("high-1", "700m", "high"), asking("high-2", "600m", "higher"),
		} {
			c.User(pod.Name, func(ctx context.Context) {
				if _, err := client.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
			})
		}
		w.Run()
		for _, name := range []string{"high-1", "high-2"} {
			if pod := w.pod(name); pod == nil || pod.Spec.NodeName == "" {
				t.Fatalf("seed %d: %s has no node\n%s", seed, name, w.Host.Log().Text())
			}
		}
		for name := range preempted {
			if strings.HasPrefix(name, "high") {
				t.Fatalf("seed %d: %s was preempted\n%s", seed, name, w.Host.Log().Text())
			}
		}
		if n := len(preempted); n > 3 {
			t.Fatalf("seed %d: %d pods were preempted", seed, n)
		}
	}
}
