package daemonset_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/controllers/daemonset"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

func parse(s string) intstr.IntOrString { return intstr.Parse(s) }

// TestLife: a set is created, nodes come and go, and the set is deleted.
func TestLife(t *testing.T) {
	for seed := range uint64(20) {
		w := newWorld(t, sim.NewSeeded(seed), 2)
		w.create(newSet())
		w.want("1:1 2:1", "created")
		if got := w.status(); got != "2 2 0 2 2 2 0" {
			t.Fatalf("status %s", got)
		}
		w.createNode("node-3")
		w.want("1:1 2:1 3:1", "a third node")
		if got := w.status(); got != "3 3 0 3 3 3 0" {
			t.Fatalf("status %s", got)
		}
		w.deletePod(w.podOn("node-2").Name)
		w.want("1:1 2:1 3:1", "a pod was deleted")
		w.deleteSet(metav1.DeletePropagationBackground)
		w.want("", "deleted")
		if got := w.revisions(); got != "" {
			t.Errorf("revisions %s", got)
		}
	}
}

// TestEvents: what the controller reports.
func TestEvents(t *testing.T) {
	w := newWorld(t, nil, 1)
	w.create(newSet())
	w.Run()
	w.editNode("node-1", taint(corev1.TaintEffectNoExecute))
	w.want("", "tainted")
	want := []string{"Normal SuccessfulCreate Created pod: web-*", "Normal SuccessfulDelete Deleted pod: web-*"}
	if diff := cmp.Diff(want, w.messages()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestNodes: which nodes get a pod.
func TestNodes(t *testing.T) {
	tolerates := func(set *appsv1.DaemonSet) {
		set.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists}}
	}
	tainted := func(key string, effect corev1.TaintEffect) func(*corev1.Node) {
		return func(node *corev1.Node) { node.Spec.Taints = []corev1.Taint{{Key: key, Effect: effect}} }
	}
	for _, test := range []struct {
		name string
		set  func(*appsv1.DaemonSet)
		node func(*corev1.Node)
		want string
	}{
		{"any", nil, nil, "1:1"},
		{"a node name", func(set *appsv1.DaemonSet) { set.Spec.Template.Spec.NodeName = "node-1" }, nil, "1:1"},
		{"another node name", func(set *appsv1.DaemonSet) { set.Spec.Template.Spec.NodeName = "node-0" }, nil, ""},
		{"a selected label", selector("a"), label("a"), "1:1"},
		{"another label", selector("a"), label("b"), ""},
		{"node name and label", func(set *appsv1.DaemonSet) {
			selector("a")(set)
			set.Spec.Template.Spec.NodeName = "node-1"
		}, label("a"), "1:1"},
		{"node name and another label", func(set *appsv1.DaemonSet) {
			selector("a")(set)
			set.Spec.Template.Spec.NodeName = "node-1"
		}, label("b"), ""},
		{"affinity", affinity("a"), label("a"), "1:1"},
		{"no affinity", affinity("a"), label("b"), ""},
		{"unschedulable", nil, func(node *corev1.Node) { node.Spec.Unschedulable = true }, "1:1"},
		{"a taint", nil, taint(corev1.TaintEffectNoSchedule), ""},
		{"a tolerated taint", tolerates, taint(corev1.TaintEffectNoSchedule), "1:1"},
		{"a preference", nil, taint(corev1.TaintEffectPreferNoSchedule), "1:1"},
		{"not ready", nil, tainted("node.kubernetes.io/not-ready", corev1.TaintEffectNoExecute), "1:1"},
		{"unreachable", nil, tainted("node.kubernetes.io/unreachable", corev1.TaintEffectNoExecute), "1:1"},
		{"disk pressure", nil, tainted("node.kubernetes.io/disk-pressure", corev1.TaintEffectNoSchedule), "1:1"},
		{"memory pressure", nil, tainted("node.kubernetes.io/memory-pressure", corev1.TaintEffectNoSchedule), "1:1"},
		{"PID pressure", nil, tainted("node.kubernetes.io/pid-pressure", corev1.TaintEffectNoSchedule), "1:1"},
		{"no network", nil, tainted("node.kubernetes.io/network-unavailable", corev1.TaintEffectNoSchedule), ""},
		{
			"no network needed", func(set *appsv1.DaemonSet) { set.Spec.Template.Spec.HostNetwork = true },
			tainted("node.kubernetes.io/network-unavailable", corev1.TaintEffectNoSchedule), "1:1",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, nil, 0)
			if test.set == nil {
				test.set = func(*appsv1.DaemonSet) {}
			}
			if test.node == nil {
				test.node = func(*corev1.Node) {}
			}
			w.create(newSet(test.set))
			w.createNode("node-1", test.node)
			w.want(test.want, "created")
			if got, want := w.set().Status.DesiredNumberScheduled, int32(len(test.want)/3); got != want {
				t.Errorf("%d desired, want %d", got, want)
			}
		})
	}
}

func selector(role string) func(*appsv1.DaemonSet) {
	return func(set *appsv1.DaemonSet) { set.Spec.Template.Spec.NodeSelector = map[string]string{"role": role} }
}

func affinity(role string) func(*appsv1.DaemonSet) {
	return func(set *appsv1.DaemonSet) {
		set.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "role", Operator: corev1.NodeSelectorOpIn, Values: []string{role}}},
			}}},
		}}
	}
}

// TestChangedNode: a pod remains on a node that is tainted with NoSchedule. It is deleted if the node is
// tainted with NoExecute, or is not selected any more.
func TestChangedNode(t *testing.T) {
	for _, test := range []struct {
		name, want, status string
		change             func(*corev1.Node)
	}{
		{"NoSchedule", "1:1", "1 1 0 1 1 1 0", taint(corev1.TaintEffectNoSchedule)}, // no event for the set
		{"NoExecute", "", "0 0 0 0 0 0 0", taint(corev1.TaintEffectNoExecute)},
		{"another label", "", "0 0 0 0 0 0 0", label("b")},
		{"unschedulable", "1:1", "1 1 0 1 1 1 0", func(node *corev1.Node) { node.Spec.Unschedulable = true }},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, nil, 0)
			w.createNode("node-1", label("a"))
			w.create(newSet(selector("a")))
			w.want("1:1", "created")
			w.editNode("node-1", test.change)
			w.want(test.want, "changed")
			if got := w.status(); got != test.status {
				t.Errorf("status %s, want %s", got, test.status)
			}
		})
	}
}

// TestMisscheduled: a pod on a node that got a taint is counted apart, until the taint is removed.
func TestMisscheduled(t *testing.T) {
	w := newWorld(t, nil, 2)
	w.create(newSet())
	w.Run()
	w.editNode("node-1", taint(corev1.TaintEffectNoSchedule))
	w.edit(func(set *appsv1.DaemonSet) { set.Annotations["note"] = "sync" })
	w.want("1:1 2:1", "tainted")
	if got := w.status(); got != "1 1 1 1 1 1 0" {
		t.Errorf("status %s", got)
	}
	w.editNode("node-1", func(node *corev1.Node) { node.Spec.Taints = nil })
	w.Run()
	if got := w.status(); got != "2 2 0 2 2 2 0" {
		t.Errorf("status %s", got)
	}
}

// TestNodeIsBack: a node that is deleted and created again is counted again, with the pod that it has.
func TestNodeIsBack(t *testing.T) {
	w := newWorld(t, nil, 2)
	w.create(newSet())
	w.Run()
	w.NoError(w.User.CoreV1().Nodes().Delete(ctx, "node-2", metav1.DeleteOptions{}))
	w.edit(func(set *appsv1.DaemonSet) { set.Annotations["note"] = "sync" })
	w.want("1:1 2:1", "no pod garbage collector")
	if got := w.status(); got != "1 1 0 1 1 1 0" {
		t.Errorf("status %s", got)
	}
	w.createNode("node-2")
	w.Run()
	if got := w.status(); got != "2 2 0 2 2 2 0" {
		t.Errorf("status %s", got)
	}
}

// TestOrphans: a set adopts the orphans that it selects, also as the pods of their nodes, and releases
// pods that it does not select.
func TestOrphans(t *testing.T) {
	for seed := range uint64(10) {
		w := newWorld(t, sim.NewSeeded(seed), 2)
		w.createPod("first", "node-1")
		w.create(newSet(func(set *appsv1.DaemonSet) {
			set.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType
		}))
		w.want("1:1 2:1", "adopted")
		if pod := w.podOn("node-1"); pod.Name != "first" {
			t.Errorf("pod %s", pod.Name)
		}
		pod := w.podOn("node-2")
		pod.Labels["app"] = "other"
		testcheck.Must(w.User.CoreV1().Pods("default").Update(ctx, pod, metav1.UpdateOptions{}))
		w.want("1:1 2:1 2:1?", "released")
	}
}

// TestOrphanedPods: the pods and revisions of a set that is deleted with orphan remain, and another set
// of its name adopts them, but none of another namespace.
func TestOrphanedPods(t *testing.T) {
	w := newWorld(t, nil, 2)
	w.create(newSet())
	w.Run()
	before := w.pods()
	w.deleteSet(metav1.DeletePropagationOrphan)
	w.want("1:1? 2:1?", "orphaned")
	elsewhere := testcheck.Must(w.User.AppsV1().ControllerRevisions("default").List(ctx, metav1.ListOptions{})).Items[0]
	elsewhere.Namespace, elsewhere.UID, elsewhere.ResourceVersion, elsewhere.Revision = "kube-public", "", "", 2
	testcheck.Must(w.User.AppsV1().ControllerRevisions("kube-public").Create(ctx, &elsewhere, metav1.CreateOptions{}))
	if got := w.revisions(); got != "1:1? 2:1?" {
		t.Errorf("revisions %s", got)
	}
	w.create(newSet())
	w.want("1:1 2:1", "adopted")
	if got := w.revisions(); got != "1:1 2:1?" {
		t.Errorf("revisions %s", got)
	}
	for i, pod := range w.pods() {
		if pod.UID != before[i].UID {
			t.Errorf("pod %s was replaced", pod.Name)
		}
	}
}

// TestDeletedSet: a set that is being deleted creates no pods, adopts none, and has no new status.
func TestDeletedSet(t *testing.T) {
	w := newWorld(t, nil, 1)
	w.create(newSet(func(set *appsv1.DaemonSet) { set.Finalizers = []string{"example.com/hold"} }))
	w.Run()
	w.deleteSet(metav1.DeletePropagationBackground)
	w.createPod("orphan", "node-1")
	w.createNode("node-2")
	w.deletePod(w.podOn("node-1").Name)
	w.Run()
	if strings.Contains(w.places(), "2:") || w.set().Status.DesiredNumberScheduled != 1 {
		t.Errorf("%s, status %s", w.places(), w.status())
	}
}

// TestEndedPods: a pod that failed or succeeded is deleted and replaced. Failed ones are deleted with
// a back-off.
func TestEndedPods(t *testing.T) {
	for phase, event := range map[corev1.PodPhase]string{
		corev1.PodFailed:    "Warning FailedDaemonPod Found failed daemon pod default/web-* on node node-1, will try to kill it",
		corev1.PodSucceeded: "Normal SucceededDaemonPod Found succeeded daemon pod default/web-* on node node-1, will try to delete it",
	} {
		w := newWorld(t, nil, 1)
		w.create(newSet())
		w.Run()
		var waits []time.Duration
		for range 3 {
			pod, began := w.podOn("node-1"), w.Host.Now()
			w.editStatus(pod, func(pod *corev1.Pod) { pod.Status.Phase = phase })
			w.Until("its end", func() bool { return w.gone(pod) })
			waits = append(waits, w.Host.Now().Sub(began).Round(time.Second))
			w.Run()
		}
		want := []time.Duration{0, time.Second, 2 * time.Second}
		if phase == corev1.PodSucceeded {
			want = []time.Duration{0, 0, 0}
		}
		if diff := cmp.Diff(want, waits); diff != "" {
			t.Errorf("%s: waits (-want +got):\n%s", phase, diff)
		}
		w.want("1:1", "replaced")
		if got := w.messages(); !slices.Contains(got, event) {
			t.Errorf("events %q", got)
		}
	}
}

// gone reports whether a pod does not exist.
func (w *world) gone(pod *corev1.Pod) bool {
	_, err := w.User.CoreV1().Pods("default").Get(ctx, pod.Name, metav1.GetOptions{})
	return apierrors.IsNotFound(err)
}

// TestExcess: of several pods of a node the oldest remains, of equal ones the first by name.
func TestExcess(t *testing.T) {
	w := newWorld(t, nil, 1)
	for _, name := range []string{"c", "a", "b"} {
		w.createPod(name, "node-1", func(pod *corev1.Pod) { pod.Labels["controller-revision-hash"] = "old" })
	}
	w.create(newSet(func(set *appsv1.DaemonSet) { set.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType }))
	w.want("1:1", "one remains")
	if pod := w.podOn("node-1"); pod.Name != "a" {
		t.Errorf("pod %s", pod.Name)
	}
}

// TestTerminatingPod: without a surge the next pod of a node is created when the previous one has gone.
func TestTerminatingPod(t *testing.T) {
	for _, change := range []struct {
		set  func(*appsv1.DaemonSet)
		want string
	}{{strategy("1", "0"), "1:1-"}, {surge("1"), "1:1 1:1-"}} {
		w := newWorld(t, nil, 1)
		w.create(newSet(change.set))
		w.Run()
		w.deaf = true
		w.deletePod(w.podOn("node-1").Name)
		w.want(change.want, "it ends")
	}
}

// TestPodOfALostNode: a pod that was created for a node that is gone before it is bound is deleted.
func TestPodOfALostNode(t *testing.T) {
	w := newWorld(t, nil, 1)
	w.editNode("node-1", func(node *corev1.Node) { node.Spec.Unschedulable = true })
	node := testcheck.Must(w.User.CoreV1().Nodes().Get(ctx, "node-1", metav1.GetOptions{}))
	node.Status.Conditions[0].Status = corev1.ConditionFalse
	testcheck.Must(w.User.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}))
	w.create(newSet())
	w.want("1:1*", "it waits for its node")
	w.NoError(w.User.CoreV1().Nodes().Delete(ctx, "node-1", metav1.DeleteOptions{}))
	w.createNode("node-2")
	w.want("2:1", "the node is gone")
}

// TestFailures: what follows a request that fails. Pods are created in batches of 1, 2 and 4.
func TestFailures(t *testing.T) {
	for _, test := range []struct {
		name, verb string
		limit      int // requests that succeed
		requests   int
		event      string
	}{
		{"create, none", "create", 0, 1, "Warning FailedCreate Error creating: Internal error occurred: no"},
		{"create, two", "create", 2, 3, "Warning FailedCreate Error creating: Internal error occurred: no"},
		{"create, three", "create", 3, 7, "Warning FailedCreate Error creating: Internal error occurred: no"},
		{"delete", "delete", 0, 8, "Warning FailedDelete Error deleting: Internal error occurred: no"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, nil, 8)
			if test.verb == "delete" {
				w.create(newSet())
				w.Run()
			}
			requests := 0
			w.fail = func(action trace.Action) error {
				if action.Verb != test.verb || !strings.HasPrefix(action.Object, "pods/") {
					return nil
				}
				if requests++; requests > test.limit {
					return apierrors.NewInternalError(errors.New("no"))
				}
				return nil
			}
			if test.verb == "delete" {
				w.edit(selector("none"))
			} else {
				w.create(newSet())
			}
			statuses := len(w.requests("update/status", "daemonsets"))
			w.Until("the end of the sync", func() bool { return len(w.requests("update/status", "daemonsets")) > statuses })
			if requests != test.requests {
				t.Errorf("%d requests, want %d", requests, test.requests)
			}
			w.Until("the event", func() bool { return slices.Contains(w.messages(), test.event) })
			w.fail = nil
			want := "1:1 2:1 3:1 4:1 5:1 6:1 7:1 8:1"
			if test.verb == "delete" {
				want = ""
			}
			w.want(want, "retried")
		})
	}
}

// TestStaleCache: while a cache lacks what the controller has written, the set waits. Without this
// protection it still creates and deletes no pod twice, but writes a status of pods that it has not seen.
func TestStaleCache(t *testing.T) {
	for _, stale := range []bool{false, true} {
		conflicts := 0
		for seed := range uint64(30) {
			w := newWorld(t, sim.NewSeeded(seed), 3, daemonset.Config{ActOnStaleCaches: stale})
			w.create(newSet())
			w.want("1:1 2:1 3:1", "created")
			w.editNode("node-1", taint(corev1.TaintEffectNoExecute))
			w.want("2:1 3:1", "tainted")
			if n := len(w.requests("create", "pods")); n != 3 {
				t.Errorf("act on stale caches %v: %d pods created", stale, n)
			}
			if n := len(w.requests("delete", "pods")); n != 1 {
				t.Errorf("act on stale caches %v: %d deletions", stale, n)
			}
			for _, request := range w.requests("update/status", "daemonsets") {
				if strings.HasSuffix(request, "Conflict") {
					conflicts++
				}
			}
		}
		if stale != (conflicts > 0) {
			t.Errorf("act on stale caches %v: %d conflicts", stale, conflicts)
		}
	}
}

// TestMinReadySeconds: a pod counts as available when it has been ready for so long.
func TestMinReadySeconds(t *testing.T) {
	w := newWorld(t, nil, 1)
	w.create(newSet(func(set *appsv1.DaemonSet) { set.Spec.MinReadySeconds = 30 }))
	w.Until("a ready pod", func() bool { return w.set().Status.NumberReady == 1 })
	began := w.Host.Now()
	if n := w.set().Status.NumberAvailable; n != 0 {
		t.Errorf("%d available at once", n)
	}
	w.Until("an available pod", func() bool { return w.set().Status.NumberAvailable == 1 })
	if d := w.Host.Now().Sub(began); d < 29*time.Second || d > 31*time.Second {
		t.Errorf("available after %v", d)
	}
}

// TestRollingUpdate: how many nodes have no ready pod, or two pods, during an update.
func TestRollingUpdate(t *testing.T) {
	for _, test := range []struct {
		name         string
		set          func(*appsv1.DaemonSet)
		fewest, most int
	}{
		{"default", func(*appsv1.DaemonSet) {}, 3, 1},
		{"two unavailable", strategy("2", "0"), 2, 1},
		{"50%", strategy("50%", "0"), 2, 1},
		{"30% is rounded up", strategy("30%", "0"), 2, 1},
		{"surge", surge("1"), 4, 2},
		{"surge of 50%", surge("50%"), 4, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			for seed := range uint64(10) {
				w := newWorld(t, sim.NewSeeded(seed), 4)
				w.create(newSet(test.set))
				w.want("1:1 2:1 3:1 4:1", "created")
				w.watch()
				w.edit(image("2"))
				w.want("1:2 2:2 3:2 4:2", "updated")
				if w.fewest < test.fewest || w.most != test.most {
					t.Errorf("fewest %d, want %d; most %d, want %d", w.fewest, test.fewest, w.most, test.most)
				}
				if got := w.status(); got != "4 4 0 4 4 4 0" {
					t.Errorf("status %s", got)
				}
			}
		})
	}
}

// TestBrokenUpdate: an update whose pods do not become ready stops. A rollback ends it.
func TestBrokenUpdate(t *testing.T) {
	for name, test := range map[string]struct {
		set           func(*appsv1.DaemonSet)
		during, after string
	}{
		"deletion": {strategy("1", "0"), "1:2 2:1 3:1", "1:1 2:1 3:1"},
		"surge":    {surge("1"), "1:1 1:2 2:1 3:1", "1:1 2:1 3:1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil, 3)
			w.broken = "2"
			w.create(newSet(test.set))
			w.Run()
			w.edit(image("2"))
			w.want(test.during, "broken")
			if got := w.revisions(); got != "1:1 2:2" {
				t.Errorf("revisions %s", got)
			}
			w.edit(image("1"))
			w.want(test.after, "rolled back")
			if got := w.revisions(); got != "2:2 3:1" {
				t.Errorf("revisions %s", got)
			}
		})
	}
}

// TestOnDelete: a pod is updated when it is deleted.
func TestOnDelete(t *testing.T) {
	w := newWorld(t, nil, 2)
	w.create(newSet(func(set *appsv1.DaemonSet) { set.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType }))
	w.Run()
	w.edit(image("2"))
	w.want("1:1 2:1", "nothing is updated")
	if got := w.status(); got != "2 2 0 2 0 2 0" {
		t.Errorf("status %s", got)
	}
	w.deletePod(w.podOn("node-2").Name)
	w.want("1:1 2:2", "one was deleted")
	if got := w.status(); got != "2 2 0 2 1 2 0" {
		t.Errorf("status %s", got)
	}
}

// TestSurgeKeepsMisplacedPod: with a surge an available pod of a node that is not selected any more
// remains until another node has an available one.
func TestSurgeKeepsMisplacedPod(t *testing.T) {
	w := newWorld(t, nil, 0)
	w.createNode("node-1", label("a"))
	w.createNode("node-2", label("b"))
	w.create(newSet(surge("1"), selector("a")))
	w.want("1:1", "created")
	w.broken = "2"
	w.editNode("node-1", taint(corev1.TaintEffectNoSchedule))
	w.edit(image("2"), func(set *appsv1.DaemonSet) { set.Spec.Template.Spec.NodeSelector = nil })
	w.want("1:1 2:2", "the new pod is not ready")
	w.broken = ""
	w.editStatus(w.podOn("node-2"), func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	})
	w.Run()
}

// TestHistoryLimit: old revisions are deleted, but for those that pods have.
func TestHistoryLimit(t *testing.T) {
	w := newWorld(t, nil, 1)
	w.create(newSet(func(set *appsv1.DaemonSet) { set.Spec.RevisionHistoryLimit = ptr.To[int32](1) }))
	w.Run()
	for _, name := range []string{"2", "3", "4"} {
		w.edit(image(name))
		w.want("1:"+name, "updated")
	}
	if got := w.revisions(); got != "3:3 4:4" {
		t.Errorf("revisions %s", got)
	}
	w.edit(func(set *appsv1.DaemonSet) { set.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType })
	for _, name := range []string{"5", "6", "7"} {
		w.edit(image(name))
		w.want("1:4", "not updated")
	}
	if got := w.revisions(); got != "4:4 7:7" {
		t.Errorf("revisions %s", got)
	}
}

// TestCollision: a revision whose name is taken by another template gets another name.
func TestCollision(t *testing.T) {
	w := newWorld(t, nil, 1)
	w.create(newSet())
	w.Run()
	name := w.Server.List("controllerrevisions")[0].GetName()
	w.deleteSet(metav1.DeletePropagationBackground)
	w.want("", "deleted")
	testcheck.Must(w.User.AppsV1().ControllerRevisions("default").Create(ctx, &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Revision: 7, Data: runtime.RawExtension{Raw: []byte(`{"spec":{}}`)},
	}, metav1.CreateOptions{}))
	w.create(newSet())
	w.want("1:1", "created again")
	if n := w.set().Status.CollisionCount; n == nil || *n != 1 {
		t.Errorf("collisions %v", n)
	}
}

// TestDuplicates: of several revisions with the same template one remains, and the pods of the others
// get its hash.
func TestDuplicates(t *testing.T) {
	w := newWorld(t, nil, 1)
	w.create(newSet())
	w.Run()
	pod := w.podOn("node-1")
	duplicate := w.Server.List("controllerrevisions")[0].DeepCopyObject().(*appsv1.ControllerRevision)
	duplicate.Name, duplicate.UID, duplicate.ResourceVersion, duplicate.Revision = "other", "", "", 5
	duplicate.Labels = map[string]string{"app": "web"}
	testcheck.Must(w.User.AppsV1().ControllerRevisions("default").Create(ctx, duplicate, metav1.CreateOptions{}))
	w.edit(func(set *appsv1.DaemonSet) { set.Annotations["note"] = "sync" })
	w.want("1:1", "once")
	if got := w.revisions(); got != "5:1" {
		t.Errorf("revisions %s", got)
	}
	if now := w.podOn("node-1"); now.UID != pod.UID || now.Labels["controller-revision-hash"] != "other" {
		t.Errorf("pod %s, labels %v", now.Name, now.Labels)
	}
}

// TestAddedRevision: a revision that is added with its set requeues nothing. One that changes does.
func TestAddedRevision(t *testing.T) {
	w := newWorld(t, nil, 1)
	w.create(newSet())
	w.Run()
	revisions := w.User.AppsV1().ControllerRevisions("default")
	duplicate := w.Server.List("controllerrevisions")[0].DeepCopyObject().(*appsv1.ControllerRevision)
	duplicate.Name, duplicate.UID, duplicate.ResourceVersion, duplicate.Revision = "other", "", "", 5
	duplicate = testcheck.Must(revisions.Create(ctx, duplicate, metav1.CreateOptions{}))
	w.Run()
	testcheck.Equal(t, "revisions after the creation", 2, len(w.Server.List("controllerrevisions")))
	duplicate.Annotations = map[string]string{"note": "sync"}
	testcheck.Must(revisions.Update(ctx, duplicate, metav1.UpdateOptions{}))
	w.Run()
	testcheck.Equal(t, "revisions after the update", 1, len(w.Server.List("controllerrevisions")))
}

// TestCrashAnywhere: a crash at any request changes nothing of what follows.
func TestCrashAnywhere(t *testing.T) {
	for name, set := range map[string]func(*appsv1.DaemonSet){"deletion": strategy("1", "0"), "surge": surge("1")} {
		at, reached := 0, true
		for ; reached; at++ {
			reached = false
			w := newWorld(t, nil, 2)
			commits := 0
			w.Server.OnCommit(func(fake.Commit) { commits++ })
			check := func(want, when string) {
				w.Helper()
				for !reached && commits < at && w.Host.Step() {
				}
				if commits >= at && !reached {
					reached = true
					w.crash()
				}
				w.want(want, when)
			}
			w.create(newSet(set))
			check("1:1 2:1", "created")
			w.edit(image("2"))
			check("1:2 2:2", "updated")
			w.editNode("node-1", taint(corev1.TaintEffectNoExecute))
			check("2:2", "tainted")
			w.edit(image("1"))
			check("2:1", "rolled back")
			if got := w.revisions(); got != "2:2 3:1" {
				t.Errorf("%s: crash at %d: revisions %s", name, at, got)
			}
		}
		if at < 25 {
			t.Errorf("%d crashes", at)
		}
	}
}
