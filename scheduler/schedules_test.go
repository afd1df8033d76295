package scheduler_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

// play creates pods that share claims, in any order with claims, nodes and a deletion.
func play(t *testing.T, seed uint64) *world {
	w := newWorld(t, sim.NewSeeded(seed))
	// I30: a pod is assigned only if its claims are bound to volumes that its node can use, and if
	// no other pod has its ReadWriteOncePod claim.
	w.Server.OnCommit(func(commit fake.Commit) {
		pod, ok := commit.After.(*corev1.Pod)
		if !ok || commit.Before == nil || pod.Spec.NodeName == "" {
			return
		}
		if commit.Before.(*corev1.Pod).Spec.NodeName != "" {
			if i := slices.IndexFunc(pod.Status.Conditions, isUnscheduled); i >= 0 {
				t.Errorf("seed %d: %s is on %s, and then: %s", seed, pod.Name, pod.Spec.NodeName, pod.Status.Conditions[i].Message)
			}
			return
		}
		for _, volume := range pod.Spec.Volumes {
			claim := w.claim(volume.PersistentVolumeClaim.ClaimName)
			if claim == nil || claim.Annotations["pv.kubernetes.io/bind-completed"] == "" {
				t.Errorf("seed %d: %s was assigned with %s unbound", seed, pod.Name, volume.Name)
				continue
			}
			if node := claim.Annotations[selectedNode]; node != "" && node != pod.Spec.NodeName {
				t.Errorf("seed %d: %s is on %s, its volume on %s", seed, pod.Name, pod.Spec.NodeName, node)
			}
		}
	})
	c := w.Host.Process("user")
	client := w.Server.Client(c)
	check := func(_ any, err error) {
		if err != nil {
			t.Error(err)
		}
	}
	claims := func(ctx context.Context) {
		for i := range 3 {
			claim := newClaim(fmt.Sprint("data-", i), []string{"late", "late", "immediate"}[i])
			if i == 1 {
				claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
			}
			check(client.CoreV1().PersistentVolumeClaims("default").Create(ctx, claim, metav1.CreateOptions{}))
		}
	}
	c.User("claims", claims)
	c.User("pods", func(ctx context.Context) {
		pods := client.CoreV1().Pods("default")
		check(pods.Create(ctx, newPod("pod-0", "data-0", "data-2"), metav1.CreateOptions{}))
		check(pods.Create(ctx, newPod("pod-1", "data-0", "data-1"), metav1.CreateOptions{}))
		check(pods.Create(ctx, newPod("pod-2", "data-1"), metav1.CreateOptions{}))
		check(pods.Create(ctx, newPod("pod-3", "data-2"), metav1.CreateOptions{}))
		check(nil, pods.Delete(ctx, "pod-3", metav1.DeleteOptions{}))
	})
	c.User("nodes", func(ctx context.Context) {
		check(client.CoreV1().Nodes().Create(ctx, newNode("node-b"), metav1.CreateOptions{}))
		check(client.CoreV1().Nodes().Create(ctx, newNode("node-a"), metav1.CreateOptions{}))
	})
	w.maker.full["node-b"] = true
	w.Run()
	return w
}

func isUnscheduled(c corev1.PodCondition) bool {
	return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse
}

func TestEveryScheduleEndsWithAllFeasiblePodsPlaced(t *testing.T) {
	for seed := range uint64(200) {
		w := play(t, seed)
		placed := map[string]bool{}
		for _, name := range []string{"pod-0", "pod-1", "pod-2"} {
			placed[name] = w.pod(name).Spec.NodeName != ""
		}
		// pod-1 and pod-2 use the same ReadWriteOncePod claim
		if !placed["pod-0"] || placed["pod-1"] == placed["pod-2"] {
			t.Fatalf("seed %d: placed %v\n%s", seed, placed, w.Host.Log().Text())
		}
		if t.Failed() {
			return
		}
		if seed%20 == 0 {
			if diff := cmp.Diff(w.Host.Log().Text(), play(t, seed).Host.Log().Text()); diff != "" {
				t.Fatalf("seed %d twice (-first +second):\n%s", seed, diff)
			}
		}
	}
}
