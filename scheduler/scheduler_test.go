package scheduler_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/scheduler"
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

// TestPodGoesWhereItsImageIs: of two nodes that are equal otherwise, the one with the image is preferred.
func TestPodGoesWhereItsImageIs(t *testing.T) {
	w := newWorld(t, nil)
	pod := newPod("web")
	pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "large"}}
	w.create(newNode("node-a"), newNode("node-b", func(n *corev1.Node) {
		n.Status.Images = []corev1.ContainerImage{{Names: []string{"large:latest"}, SizeBytes: 900 << 20}}
	}), pod)
	w.Run()
	testcheck.Equal(t, "node", "node-b", w.pod("web").Spec.NodeName)
}

const notHelpful = "Preemption is not helpful for scheduling"

// notPreempting returns the end of a message: no pods are preempted, for a reason.
func notPreempting(nodes int, reason string) string {
	return fmt.Sprintf(" no new claims to deallocate, preemption: 0/%d nodes are available: %d %s.", nodes, nodes, reason)
}

func TestPodWaitsForANodeWithOneEvent(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newNode("node-a", func(n *corev1.Node) { n.Spec.Unschedulable = true }), newPod("web"))
	w.Run()
	message := "0/1 nodes are available: 1 node(s) were unschedulable." + notPreempting(1, notHelpful)
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
	if w.pod("web").ResourceVersion != version {
		t.Error("a node that does not help is no reason to look again")
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

// TestPodWaitsForAPortOfTheNode: pods with the same port of the node run on different nodes. The one
// without a node is placed when another pod leaves its node, or has ended.
func TestPodWaitsForAPortOfTheNode(t *testing.T) {
	w := newWorld(t, nil)
	pods := map[string]*corev1.Pod{}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		pods[name] = newPod(name)
		pods[name].Spec.Containers = []corev1.Container{{Name: "c", Image: "i", Ports: []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}}}
	}
	pods["e"].Spec.Containers[0].Ports[0].Protocol = corev1.ProtocolUDP
	w.create(newNode("node-1"), newNode("node-2"), pods["a"], pods["b"], pods["c"], pods["d"], pods["e"])
	w.Run()
	nodes := func() map[string]string {
		out := map[string]string{}
		for _, pod := range w.Server.List("pods") {
			out[pod.GetName()] = pod.(*corev1.Pod).Spec.NodeName
		}
		return out
	}
	testcheck.Equal(t, "nodes", map[string]string{"a": "node-1", "b": "node-2", "c": "", "d": "", "e": "node-1"}, nodes())
	testcheck.Equal(t, "events", []string{
		"FailedScheduling: 0/2 nodes are available: 2 node(s) didn't have free ports for the requested pod ports." + notPreempting(2, "No preemption victims found for incoming pod"),
	}, w.events("c"))

	testcheck.NoError(t, w.User.CoreV1().Pods("default").Delete(t.Context(), "b", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	w.Run()
	testcheck.Equal(t, "nodes after a deletion", map[string]string{"a": "node-1", "c": "node-2", "d": "", "e": "node-1"}, nodes())
	ended := w.pod("a").DeepCopy()
	ended.Status.Phase = corev1.PodSucceeded
	testcheck.Must(w.User.CoreV1().Pods("default").UpdateStatus(t.Context(), ended, metav1.UpdateOptions{}))
	w.Run()
	testcheck.Equal(t, "nodes after an end", map[string]string{"a": "node-1", "c": "node-2", "d": "node-1", "e": "node-1"}, nodes())
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
	if diff := cmp.Diff([]string{`FailedScheduling: 0/2 nodes are available: persistentvolumeclaim "data" not found. not found`},
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
	const text = `FailedScheduling: running PreBind plugin "VolumeBinding": binding volumes: selectedNode annotation reset for PVC "data"`
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
		"ReadWriteOncePod access mode already in-use by another pod." +
		" no new claims to deallocate, preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."
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

// TestNamedNode: a pod whose node affinity names a node waits for that node, and says why.
func TestNamedNode(t *testing.T) {
	w := newWorld(t, nil)
	names := func(pod *corev1.Pod, nodes ...string) *corev1.Pod {
		var fields []corev1.NodeSelectorRequirement
		for _, node := range nodes {
			fields = append(fields, corev1.NodeSelectorRequirement{
				Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
			})
		}
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: fields}},
			},
		}}
		return pod
	}
	w.create(newNode("node-a"), newNode("node-b"), newNode("node-c", func(n *corev1.Node) { n.Spec.Unschedulable = true }))
	w.create(names(newPod("named"), "node-b"), names(newPod("full"), "node-c"), names(newPod("early"), "node-d"), names(newPod("both"), "node-a", "node-b"))
	w.Run()
	for pod, want := range map[string]string{
		"named": "Scheduled: Successfully assigned default/named to node-b",
		"full":  "FailedScheduling: 0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]." + notPreempting(3, notHelpful),
		"early": "FailedScheduling: 0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeAffinity]." + notPreempting(3, notHelpful),
		"both":  "FailedScheduling: 0/3 nodes are available: pod affinity terms conflict. not found",
	} {
		if diff := cmp.Diff([]string{want}, w.events(pod)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", pod, diff)
		}
	}
	w.create(newNode("node-d"))
	w.Run()
	if got := w.pod("early").Spec.NodeName; got != "node-d" {
		t.Errorf("node %q, want node-d", got)
	}
}

// TestBindingsInFlight: while a pod is being assigned, others are.
func TestBindingsInFlight(t *testing.T) {
	w := newWorld(t, sim.NewSeeded(1))
	w.create(newNode("node-a"))
	for i := range 10 {
		w.create(newPod(fmt.Sprint("pod-", i)))
	}
	w.Run()
	for i := range 10 {
		if w.pod(fmt.Sprint("pod-", i)).Spec.NodeName == "" {
			t.Errorf("pod-%d has no node", i)
		}
	}
	if tasks := w.Host.Tasks(); !slices.Contains(tasks, "scheduler/pods 3") {
		t.Errorf("at most two pods were assigned at once: %v", tasks)
	}
}

// TestProfiles: pods name the profile that schedules them. Those that name another scheduler are left alone.
func TestProfiles(t *testing.T) {
	w := newWorldWith(t, nil, func(cfg *scheduler.Config) {
		cfg.Configuration = &configv1.KubeSchedulerConfiguration{Profiles: []configv1.KubeSchedulerProfile{
			{SchedulerName: ptr("default-scheduler")},
			{SchedulerName: ptr("careless"), Plugins: &configv1.Plugins{MultiPoint: configv1.PluginSet{
				Disabled: []configv1.Plugin{{Name: "NodeUnschedulable"}, {Name: "TaintToleration"}},
			}}},
		}}
	})
	w.create(newNode("node-a", func(n *corev1.Node) { n.Spec.Unschedulable = true }))
	for _, name := range []string{"default-scheduler", "careless", "other"} {
		pod := newPod(name)
		pod.Spec.SchedulerName = name
		w.create(pod)
	}
	w.Run()
	got := map[string]string{}
	for _, name := range []string{"default-scheduler", "careless", "other"} {
		got[name] = w.pod(name).Spec.NodeName
	}
	if diff := cmp.Diff(map[string]string{"default-scheduler": "", "careless": "node-a", "other": ""}, got); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if len(w.events("other")) > 0 {
		t.Error("events about a pod of another scheduler")
	}
}

func TestInvalidConfiguration(t *testing.T) {
	_, err := scheduler.New(scheduler.Config{
		Informers:     fake.NewServer(fake.Config{Now: time.Now}).Informers(nil),
		Configuration: &configv1.KubeSchedulerConfiguration{PodInitialBackoffSeconds: ptr(int64(-1))},
	})
	if err == nil || !strings.Contains(err.Error(), "podInitialBackoffSeconds") {
		t.Errorf("error %v", err)
	}
}
