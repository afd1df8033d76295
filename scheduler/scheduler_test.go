package scheduler_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/sim"
)

func TestPodGoesOnTheFirstNodeThatFits(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newNode("node-b"), newNode("node-a"), newPod("web"))
	w.Run()
	if got := w.pod("web").Spec.NodeName; got != "node-a" {
		t.Errorf("node %q, want node-a", got)
	}
	if diff := cmp.Diff([]string{"Scheduled: Successfully assigned default/web to node-a"},
		w.events("web")); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestPodWaitsForANodeWithOneEvent(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newNode("node-a", func(n *corev1.Node) { n.Spec.Unschedulable = true }), newPod("web"))
	w.Run()
	const message = "0/1 nodes are available: 1 node(s) were unschedulable."
	want := []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: message,
		LastTransitionTime: metav1.NewTime(sim.Epoch),
	}}
	ignore := cmpopts.IgnoreFields(corev1.PodCondition{}, "ObservedGeneration")
	if diff := cmp.Diff(want, w.pod("web").Status.Conditions, ignore); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"FailedScheduling: " + message}, w.events("web")); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if got := w.Server.List("events")[0].(*corev1.Event).Count; got != 1 {
		t.Errorf("said %d times, want once: the pod's own condition is no reason to look again", got)
	}
	version := w.pod("web").ResourceVersion
	w.create(newNode("node-b", func(n *corev1.Node) { n.Spec.Unschedulable = true }))
	w.Run()
	if w.pod("web").ResourceVersion == version {
		t.Error("the condition does not say that there are two nodes now")
	}
	patches := w.count("patch/status")
	w.patchNode("node-b", `{"metadata":{"labels":{"a":"b"}}}`)
	w.Run()
	if w.count("patch/status") != patches {
		t.Error("the condition was patched though it says the same")
	}
	w.patchNode("node-b", `{"spec":{"unschedulable":null}}`)
	w.Run()
	if got := w.pod("web").Spec.NodeName; got != "node-b" {
		t.Errorf("node %q after it became schedulable, want node-b", got)
	}
}

// count returns the number of the scheduler's requests with a verb.
func (w *world) count(verb string) int {
	n := 0
	for _, record := range w.Host.Log().Records() {
		if record.Task == "scheduler/pods" && record.Verb == verb {
			n++
		}
	}
	return n
}

func (w *world) patchNode(name, patch string) {
	w.Helper()
	_, err := w.User.CoreV1().Nodes().Patch(context.Background(), name, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{})
	if err != nil {
		w.Fatal(err)
	}
}

func TestFirstConsumerGetsItsVolumes(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newNode("node-a"), newNode("node-b"), newPod("db", "data", "log"))
	w.Run()
	if diff := cmp.Diff([]string{`FailedScheduling: 0/2 nodes are available: persistentvolumeclaim "data" not found.`},
		w.events("db")); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	w.maker.idle = true
	w.create(newClaim("data", "late"), newClaim("log", "late"))
	w.Run()
	for _, name := range []string{"data", "log"} {
		if got := w.claim(name).Annotations[selectedNode]; got != "node-a" {
			t.Errorf("selected node of %s %q, want node-a", name, got)
		}
	}
	if w.pod("db").Spec.NodeName != "" {
		t.Error("the pod was assigned before its claims were bound")
	}
	w.maker.idle = false
	w.touch("data")
	w.Run()
	if w.pod("db").Spec.NodeName != "" {
		t.Error("the pod was assigned before all its claims were bound")
	}
	w.touch("log")
	w.Run()
	if got := w.pod("db").Spec.NodeName; got != "node-a" {
		t.Errorf("node %q, want node-a", got)
	}
}

// touch queues a claim for the maker again.
func (w *world) touch(claim string) {
	w.Helper()
	_, err := w.User.CoreV1().PersistentVolumeClaims("default").Patch(context.Background(), claim, types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"touched":"yes"}}}`), metav1.PatchOptions{})
	if err != nil {
		w.Fatal(err)
	}
}

func TestDeselectedNodeIsChosenAgainAfterABackoff(t *testing.T) {
	w := newWorld(t, nil)
	w.maker.full["node-a"] = true
	w.create(newNode("node-a"), newClaim("data", "late"), newPod("db", "data"))
	times := 0
	err := w.Host.Wait(context.Background(), "three choices", func() bool {
		times = 0
		for _, record := range w.Host.Log().Records() {
			if record.Task == "maker/claims" && record.Verb == "update" {
				times++
			}
		}
		return times == 3
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := w.Host.Now().Sub(sim.Epoch); got != 3*time.Second {
		t.Errorf("third choice given back at %s, want rests of 1 s and 2 s", got)
	}
	const text = `FailedScheduling: running PreBind plugin "VolumeBinding": binding volumes: provisioning failed for PVC "data"`
	if diff := cmp.Diff([]string{text}, w.events("db")); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	w.patchNode("node-a", `{"spec":{"unschedulable":true}}`)
	w.create(newNode("node-b"))
	w.Run()
	if got := w.pod("db").Spec.NodeName; got != "node-b" {
		t.Errorf("node %q, want node-b", got)
	}
}

func TestReadWriteOncePodClaim(t *testing.T) {
	alone := newClaim("data", "late")
	alone.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	elsewhere := alone.DeepCopy()
	elsewhere.Namespace = "other"
	stranger := newPod("db-0", "data")
	stranger.Namespace = "other"

	w := newWorld(t, nil)
	w.maker.idle = true
	w.create(newNode("node-a"), newNode("node-b"), elsewhere, stranger)
	w.Run()
	w.create(alone, newPod("db-1", "data"), newPod("db-2", "data"))
	w.Run() // db-1 waits for its volume, and has the claim already; db-0 has another of the name
	const text = "FailedScheduling: 0/2 nodes are available: 2 node(s) unavailable due to PersistentVolumeClaim with " +
		"ReadWriteOncePod access mode already in-use by another pod."
	if diff := cmp.Diff([]string{text}, w.events("db-2")); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	w.maker.idle = false
	w.touch("data")
	w.Run()
	if w.pod("db-1").Spec.NodeName != "node-a" || w.pod("db-2").Spec.NodeName != "" {
		t.Errorf("db-1 on %q, db-2 on %q; want node-a and nowhere", w.pod("db-1").Spec.NodeName,
			w.pod("db-2").Spec.NodeName)
	}
	zero := int64(0)
	if err := w.User.CoreV1().Pods("default").Delete(context.Background(), "db-1",
		metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
		t.Fatal(err)
	}
	w.Run()
	if got := w.pod("db-2").Spec.NodeName; got != "node-a" {
		t.Errorf("db-2 on %q after db-1 went, want node-a", got)
	}
}

func TestPodsThatAreNotScheduled(t *testing.T) {
	w := newWorld(t, nil)
	gated, others := newPod("gated"), newPod("others")
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}}
	others.Spec.SchedulerName = "another"
	w.create(newNode("node-a"), gated, others)
	w.Run()
	for _, name := range []string{"gated", "others"} {
		if got := w.pod(name).Spec.NodeName; got != "" || len(w.events(name)) != 0 {
			t.Errorf("%s on %q, events %v; want it left alone", name, got, w.events(name))
		}
	}
}

func TestPodDeletedWhileItWaits(t *testing.T) {
	w := newWorld(t, nil)
	w.maker.idle = true
	w.create(newNode("node-a"), newClaim("data", "late"), newPod("db", "data"))
	w.Run()
	w.NoError(w.User.CoreV1().Pods("default").Delete(context.Background(), "db", metav1.DeleteOptions{}))
	w.Run()
	w.maker.idle = false
	w.touch("data")
	w.create(newPod("db", "data"))
	w.Run()
	if got := w.pod("db").Spec.NodeName; got != "node-a" {
		t.Errorf("the second pod of the name is on %q, want node-a", got)
	}
}
