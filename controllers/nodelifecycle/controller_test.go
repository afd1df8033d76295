package nodelifecycle_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

const unreachable = "unreachable:NoExecute unreachable:NoSchedule"

// TestSilentNode checks when a node is declared dead. Another node is always ready.
func TestSilentNode(t *testing.T) {
	tests := []struct {
		name string
		play func(w *world)
		want string
	}{
		{"no status, created recently", func(w *world) { w.node("a", ""); w.pass(59 * time.Second) }, "none"},
		{"no status, created long ago", func(w *world) { w.node("a", ""); w.pass(61 * time.Second) }, "Unknown:NodeStatusNeverUpdated " + unreachable},
		{"no status, lease renewed", func(w *world) {
			w.node("a", "")
			w.pass(40 * time.Second)
			w.renew("a")
			w.pass(59 * time.Second)
		}, "none"},
		{"no status, lease expired", func(w *world) {
			w.node("a", "")
			w.renew("a")
			w.pass(61 * time.Second)
		}, "Unknown:NodeStatusNeverUpdated " + unreachable},
		{"reported recently", func(w *world) { w.node("a", "True"); w.pass(49 * time.Second) }, "True"},
		{"not ready, reported recently", func(w *world) { w.node("a", "False"); w.pass(time.Second) }, "False not-ready:NoExecute not-ready:NoSchedule"},
		{"reported long ago", func(w *world) { w.node("a", "True"); w.pass(51 * time.Second) }, "Unknown:NodeStatusUnknown " + unreachable},
		{"not ready, reported long ago", func(w *world) { w.node("a", "False"); w.pass(51 * time.Second) }, "Unknown:NodeStatusUnknown " + unreachable},
		{"unknown, reported long ago", func(w *world) { w.node("a", "Unknown"); w.pass(51 * time.Second) }, "Unknown " + unreachable},
		{"reports", func(w *world) {
			w.node("a", "True")
			for range 5 {
				w.pass(40 * time.Second)
				w.report("a", "True")
			}
		}, "True"},
		{"stops to report", func(w *world) {
			w.node("a", "True")
			w.pass(40 * time.Second)
			w.report("a", "True")
			w.pass(51 * time.Second)
		}, "Unknown:NodeStatusUnknown " + unreachable},
		{"renews its lease", func(w *world) {
			w.node("a", "True")
			for range 5 {
				w.renew("a")
				w.pass(40 * time.Second)
			}
		}, "True"},
		{"stops to renew its lease", func(w *world) {
			w.node("a", "True")
			w.renew("a")
			w.pass(40 * time.Second)
			w.renew("a")
			w.pass(51 * time.Second)
		}, "Unknown:NodeStatusUnknown " + unreachable},
		{"status reported, lease expired", func(w *world) {
			w.node("a", "True")
			w.renew("a")
			w.pass(40 * time.Second)
			w.report("a", "True")
			w.pass(40 * time.Second)
		}, "True"},
		{"reports again", func(w *world) {
			w.node("a", "True")
			w.pass(51 * time.Second)
			w.report("a", "True")
			w.pass(time.Second)
		}, "True"},
		{"a lease without a report changes nothing", func(w *world) {
			w.node("a", "True")
			w.pass(51 * time.Second)
			w.renew("a")
			w.pass(time.Second)
		}, "Unknown:NodeStatusUnknown " + unreachable},
		{"the controller starts again", func(w *world) {
			w.node("a", "True")
			w.pass(49 * time.Second)
			w.crash(false)
			w.pass(49 * time.Second)
		}, "True"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, false)
			w.node("ready", "True")
			beats := w.Host.Process("beats")
			q := sim.NewQueue[string](beats, sim.QueueConfig{Name: "beats", Heartbeat: true})
			q.Work(func(context.Context, string) error {
				w.report("ready", "True")
				q.AddAfter("ready", 10*time.Second)
				return nil
			})
			q.Add("ready")
			test.play(w)
			w.pass(0)
			if got := w.readiness("a"); got != test.want {
				t.Errorf("got %q, want %q\n%s", got, test.want, w.Host.Log().Text())
			}
		})
	}
}

// TestConditionsOfASilentNode checks what is written of a silent node, and when.
func TestConditionsOfASilentNode(t *testing.T) {
	w := newWorld(t, false)
	w.node("a", "True", func(node *corev1.Node) {
		node.Status.Conditions = append(node.Status.Conditions,
			w.conditionNow(corev1.NodeMemoryPressure, "False"), w.conditionNow(corev1.NodeNetworkUnavailable, "False"))
	})
	w.Run()
	obj, _ := w.Server.Get("nodes", "", "a")
	created := metav1.NewTime(sim.Epoch)
	dead := metav1.NewTime(sim.Epoch.Add(50 * time.Second))
	unknown := func(kind corev1.NodeConditionType, reason, message string) corev1.NodeCondition {
		return corev1.NodeCondition{
			Type: kind, Status: "Unknown", LastHeartbeatTime: created, LastTransitionTime: dead, Reason: reason, Message: message,
		}
	}
	never := obj.GetCreationTimestamp()
	want := []corev1.NodeCondition{
		unknown(corev1.NodeReady, "NodeStatusUnknown", "Kubelet stopped posting node status."),
		unknown(corev1.NodeMemoryPressure, "NodeStatusUnknown", "Kubelet stopped posting node status."),
		{Type: corev1.NodeNetworkUnavailable, Status: "False", LastHeartbeatTime: created, LastTransitionTime: created},
		unknown(corev1.NodeDiskPressure, "NodeStatusNeverUpdated", "Kubelet never posted node status."),
		unknown(corev1.NodePIDPressure, "NodeStatusNeverUpdated", "Kubelet never posted node status."),
	}
	want[3].LastHeartbeatTime, want[4].LastHeartbeatTime = never, never
	testcheck.Equal(t, "conditions", want, obj.(*corev1.Node).Status.Conditions)
	testcheck.Equal(t, "time", 50*time.Second, w.Host.Now().Sub(sim.Epoch))
}

// TestTaintsOfConditions checks the NoSchedule taints of a node.
func TestTaintsOfConditions(t *testing.T) {
	is := func(kind corev1.NodeConditionType, status corev1.ConditionStatus) func(w *world, node *corev1.Node) {
		return func(w *world, node *corev1.Node) {
			node.Status.Conditions = append(node.Status.Conditions, w.conditionNow(kind, status))
		}
	}
	has := func(key string, effect corev1.TaintEffect) func(w *world, node *corev1.Node) {
		return func(_ *world, node *corev1.Node) {
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: effect})
		}
	}
	cordoned := func(_ *world, node *corev1.Node) { node.Spec.Unschedulable = true }
	const none = corev1.TaintEffectNoSchedule
	tests := []struct {
		name   string
		change []func(w *world, node *corev1.Node)
		want   string
	}{
		{"ready", []func(*world, *corev1.Node){is(corev1.NodeReady, "True")}, ""},
		{"network unavailable", []func(*world, *corev1.Node){is(corev1.NodeReady, "True"), is(corev1.NodeNetworkUnavailable, "True")}, "network-unavailable:NoSchedule"},
		{"under pressure", []func(*world, *corev1.Node){
			is(corev1.NodeReady, "True"), is(corev1.NodeMemoryPressure, "True"), is(corev1.NodeDiskPressure, "True"), is(corev1.NodePIDPressure, "True"),
		}, "disk-pressure:NoSchedule memory-pressure:NoSchedule pid-pressure:NoSchedule"},
		{"not ready", []func(*world, *corev1.Node){is(corev1.NodeReady, "False")}, "not-ready:NoExecute not-ready:NoSchedule"},
		{"unknown", []func(*world, *corev1.Node){is(corev1.NodeReady, "Unknown")}, unreachable},
		{"unschedulable", []func(*world, *corev1.Node){is(corev1.NodeReady, "True"), cordoned}, "unschedulable:NoSchedule"},
		{"not unschedulable any more", []func(*world, *corev1.Node){
			is(corev1.NodeReady, "True"), has(corev1.TaintNodeUnschedulable, none),
		}, ""},
		{"not under pressure any more", []func(*world, *corev1.Node){
			is(corev1.NodeReady, "True"), is(corev1.NodeDiskPressure, "False"), has(corev1.TaintNodeDiskPressure, none),
		}, ""},
		{"taints of others", []func(*world, *corev1.Node){
			is(corev1.NodeReady, "True"), has("mine", none), has(corev1.TaintNodeOutOfService, corev1.TaintEffectNoExecute),
			has(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoExecute),
		}, "mine:NoSchedule out-of-service:NoExecute unschedulable:NoExecute"},
		{"ready again", []func(*world, *corev1.Node){
			is(corev1.NodeReady, "True"), has(corev1.TaintNodeUnreachable, none),
			has(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute), has(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute),
		}, ""},
		{"not ready instead of unknown", []func(*world, *corev1.Node){
			is(corev1.NodeReady, "False"), has(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute),
		}, "not-ready:NoExecute not-ready:NoSchedule"},
		{"unknown instead of not ready", []func(*world, *corev1.Node){
			is(corev1.NodeReady, "Unknown"), has(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute),
		}, unreachable},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, false)
			w.node("ready", "True")
			w.node("a", "", func(node *corev1.Node) {
				for _, change := range test.change {
					change(w, node)
				}
			})
			w.pass(0)
			obj, _ := w.Server.Get("nodes", "", "a")
			if got := taintsOf(obj.(*corev1.Node)); got != test.want {
				t.Errorf("got %q, want %q\n%s", got, test.want, w.Host.Log().Text())
			}
		})
	}
}

// TestTaintsHaveATime checks the whole taint of an unreachable node.
func TestTaintsHaveATime(t *testing.T) {
	w := newWorld(t, false)
	w.node("ready", "True")
	w.node("a", "Unknown")
	w.pass(0)
	obj, _ := w.Server.Get("nodes", "", "a")
	now := metav1.NewTime(w.Host.Now())
	testcheck.Equal(t, "taints", []corev1.Taint{
		{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule, TimeAdded: &now},
		{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute, TimeAdded: &now},
	}, obj.(*corev1.Node).Spec.Taints)
}

// TestRate checks when nodes that die at once are tainted, by the number of nodes in two zones.
func TestRate(t *testing.T) {
	tests := []struct {
		name        string
		ready, dead int // in the first zone
		other       int // ready nodes in the second zone
		want        string
	}{
		{"one by one", 3, 3, 0, "a0@0s a1@10s a2@20s"},
		{"small zone, partially disrupted", 2, 3, 0, ""},
		{"large zone, partially disrupted", 2, 50, 0, "a0@0s a1@1m40s a10@3m20s"},
		{"two are not enough for a disruption", 1, 2, 0, "a0@0s a1@10s"},
		{"zone fully disrupted", 0, 2, 1, "a0@0s a1@10s"},
		{"all zones fully disrupted", 0, 2, 0, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, false)
			inZone := func(zone string) func(node *corev1.Node) {
				return func(node *corev1.Node) { node.Labels = map[string]string{corev1.LabelTopologyZone: zone} }
			}
			for i := range test.dead {
				w.node(fmt.Sprint("a", i), "Unknown", inZone("a"))
			}
			for i := range test.ready {
				w.node(fmt.Sprint("b", i), "True", inZone("a"))
			}
			for i := range test.other {
				w.node(fmt.Sprint("c", i), "True", inZone("c"))
			}
			for range 5 {
				w.pass(40 * time.Second)
				for i := range test.ready {
					w.report(fmt.Sprint("b", i), "True")
				}
				for i := range test.other {
					w.report(fmt.Sprint("c", i), "True")
				}
			}
			testcheck.Equal(t, "taints", test.want, w.taintTimes())
		})
	}
}

// TestAllNodesDie: with the last ready node the fault may be the control plane's. The taints go, and no
// pod is evicted. They come again, one by one, if one node is ready again and another is not.
func TestAllNodesDie(t *testing.T) {
	w := newWorld(t, false)
	w.node("a", "Unknown")
	w.node("b", "True")
	w.pass(0)
	testcheck.Equal(t, "a, while b is ready", "Unknown "+unreachable, w.readiness("a"))
	w.report("b", "False")
	w.pass(0)
	testcheck.Equal(t, "a, with b not ready", "Unknown unreachable:NoSchedule", w.readiness("a"))
	testcheck.Equal(t, "b", "False not-ready:NoSchedule", w.readiness("b"))
	w.pass(40 * time.Second)
	testcheck.Equal(t, "b later", "False not-ready:NoSchedule", w.readiness("b"))
	w.report("b", "True")
	w.pass(9 * time.Second)
	testcheck.Equal(t, "a, at once with b", "Unknown unreachable:NoSchedule", w.readiness("a"))
	w.pass(2 * time.Second)
	testcheck.Equal(t, "a, after the rate", "Unknown "+unreachable, w.readiness("a"))
	testcheck.Equal(t, "b again", "True", w.readiness("b"))
}

// TestExcludedNodes do not count for the state of their zone.
func TestExcludedNodes(t *testing.T) {
	w := newWorld(t, false)
	excluded := func(node *corev1.Node) {
		node.Labels = map[string]string{"node.kubernetes.io/exclude-disruption": ""}
	}
	w.node("a", "Unknown")
	w.node("b", "True", excluded)
	w.pass(0)
	testcheck.Equal(t, "the only node that counts", "Unknown unreachable:NoSchedule", w.readiness("a"))
	w.node("c", "True")
	w.node("d", "Unknown", excluded)
	w.pass(10 * time.Second)
	testcheck.Equal(t, "a", "Unknown "+unreachable, w.readiness("a"))
	w.pass(10 * time.Second)
	testcheck.Equal(t, "an excluded node", "Unknown "+unreachable, w.readiness("d"))
}

// TestNodesDieTogether: the state of a zone counts all nodes that have expired, before the first of them
// is tainted.
func TestNodesDieTogether(t *testing.T) {
	w := newWorld(t, false)
	for _, name := range []string{"a", "b", "c", "d"} {
		w.node(name, "True")
	}
	w.pass(40 * time.Second)
	w.report("d", "True")
	w.pass(20 * time.Second)
	testcheck.Equal(t, "a", "Unknown:NodeStatusUnknown unreachable:NoSchedule", w.readiness("a"))
	testcheck.Equal(t, "taints", "", w.taintTimes())
	w.pass(40 * time.Second)
	testcheck.Equal(t, "d", "Unknown:NodeStatusUnknown unreachable:NoSchedule", w.readiness("d"))
	testcheck.Equal(t, "taints of all nodes", "", w.taintTimes())
}

// TestLastReadyNodeIsExcluded: the state of the remaining zones has not changed, and the taints stay.
func TestLastReadyNodeIsExcluded(t *testing.T) {
	w := newWorld(t, false)
	w.node("a", "Unknown")
	w.node("b", "True", func(node *corev1.Node) { node.Labels = map[string]string{corev1.LabelTopologyZone: "b"} })
	w.pass(0)
	w.change("b", func(node *corev1.Node) { node.Labels["node.kubernetes.io/exclude-disruption"] = "" })
	w.pass(10 * time.Second)
	testcheck.Equal(t, "a", "Unknown "+unreachable, w.readiness("a"))
}

// TestConditionIsRemoved: a node that has lost its condition Ready counts as just seen.
func TestConditionIsRemoved(t *testing.T) {
	w := newWorld(t, false)
	w.node("ready", "True")
	w.node("a", "True")
	w.pass(30 * time.Second)
	w.change("a", func(node *corev1.Node) { node.Status.Conditions = nil })
	w.pass(59 * time.Second)
	testcheck.Equal(t, "a, before its time", "none", w.readiness("a"))
	w.pass(2 * time.Second)
	testcheck.Equal(t, "a", "Unknown:NodeStatusNeverUpdated unreachable:NoSchedule", w.readiness("a"))
}

// TestWaitingNodeReturns: a node that is ready again before its turn is not tainted.
func TestWaitingNodeReturns(t *testing.T) {
	for _, name := range []string{"returns", "deleted"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, false)
			w.node("a", "Unknown")
			w.node("b", "Unknown")
			w.node("c", "True")
			w.pass(5 * time.Second)
			if name == "returns" {
				w.report("b", "True")
			} else {
				w.NoError(w.User.CoreV1().Nodes().Delete(ctx, "b", metav1.DeleteOptions{}))
			}
			w.pass(30 * time.Second)
			testcheck.Equal(t, "taints", "a@0s", w.taintTimes())
		})
	}
}

// TestPods checks which pods are marked as not ready.
func TestPods(t *testing.T) {
	setUp := func(t *testing.T) *world {
		w := newWorld(t, false)
		w.node("a", "True")
		w.node("b", "True")
		w.pod("a1", "a", "True")
		w.pod("a2", "a", "True")
		w.pod("a3", "a", "")
		w.pod("b1", "b", "True")
		w.pass(40 * time.Second)
		w.report("b", "True")
		return w
	}
	t.Run("the node dies", func(t *testing.T) {
		w := setUp(t)
		w.pass(11 * time.Second)
		testcheck.Equal(t, "pods", "a1 a2", w.unready())
		testcheck.Equal(t, "events", "RegisteredNode a, RegisteredNode b, NodeNotReady a, NodeNotReady a1, NodeNotReady a2", w.events())
	})
	t.Run("requests fail", func(t *testing.T) {
		w := setUp(t)
		*w.failing = 2
		w.pass(11 * time.Second)
		testcheck.Equal(t, "pods", "a1 a2", w.unready())
	})
	t.Run("a kubelet that reports not ready reports its pods, too", func(t *testing.T) {
		w := setUp(t)
		w.report("a", "False")
		w.pass(time.Second)
		testcheck.Equal(t, "pods", "", w.unready())
	})
	t.Run("a pod is bound to a dead node", func(t *testing.T) {
		w := setUp(t)
		w.pass(11 * time.Second)
		w.pod("late", "a", "True")
		w.pod("later", "", "True")
		w.pass(time.Second)
		testcheck.Equal(t, "pods", "a1 a2 late", w.unready())
		w.Server.UpdateStored("pods", "default", "later", func(stored fake.Object) fake.Object {
			pod := stored.(*corev1.Pod).DeepCopy()
			pod.Spec.NodeName = "a"
			return pod
		})
		w.pod("unknown", "nowhere", "True")
		w.pass(time.Second)
		testcheck.Equal(t, "pods then", "a1 a2 late later", w.unready())
	})
	t.Run("the controller starts again", func(t *testing.T) {
		w := setUp(t)
		w.Until("the node is dead", func() bool { return w.readiness("a") != "True" })
		w.crash(false)
		w.pass(time.Second)
		testcheck.Equal(t, "pods", "a1 a2", w.unready())
	})
}

// TestLabels checks the labels with former names.
func TestLabels(t *testing.T) {
	tests := []struct {
		name         string
		labels, want map[string]string
	}{
		{"none", nil, nil},
		{"os and arch", map[string]string{"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}, map[string]string{
			"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64",
		}},
		{"they differ", map[string]string{"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "windows"}, map[string]string{
			"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "linux",
		}},
		{"beta only", map[string]string{"beta.kubernetes.io/os": "windows"}, map[string]string{"beta.kubernetes.io/os": "windows"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, false)
			w.node("a", "True", func(node *corev1.Node) { node.Labels = test.labels })
			w.pass(0)
			obj, _ := w.Server.Get("nodes", "", "a")
			testcheck.Equal(t, "labels", test.want, obj.GetLabels())
		})
	}
}

// TestNodesComeAndGo checks the events of nodes, and that a new node of a name is another one.
func TestNodesComeAndGo(t *testing.T) {
	w := newWorld(t, false)
	w.node("a", "True")
	w.pass(40 * time.Second)
	w.NoError(w.User.CoreV1().Nodes().Delete(ctx, "a", metav1.DeleteOptions{}))
	w.node("a", "True")
	w.pass(40 * time.Second)
	testcheck.Equal(t, "the new node", "True", w.readiness("a"))
	w.NoError(w.User.CoreV1().Nodes().Delete(ctx, "a", metav1.DeleteOptions{}))
	w.pass(0)
	testcheck.Equal(t, "events", "RegisteredNode a, RemovingNode a, RegisteredNode a, RemovingNode a", w.events())
	messages := map[string]bool{}
	for _, obj := range w.Server.List("events") {
		messages[obj.(*corev1.Event).Message] = true
	}
	testcheck.Equal(t, "messages", map[string]bool{
		"Node a event: Registered Node a in Controller": true, "Node a event: Removing Node a from Controller": true,
	}, messages)
}

// TestLeasedOnly: nodes without a Lease are left alone and cause no step. Renewals cause none either,
// and their times count.
func TestLeasedOnly(t *testing.T) {
	w := newWorld(t, true)
	w.node("a", "True")
	w.node("b", "Unknown", func(node *corev1.Node) { node.Spec.Unschedulable = true })
	w.pod("a1", "a", "True")
	w.pod("b1", "b", "True")
	w.report("a", "True")
	w.Run()
	testcheck.Equal(t, "steps without Leases", 0, w.Host.Steps())
	w.pass(time.Hour)
	testcheck.Equal(t, "a without a Lease", "True", w.readiness("a"))
	testcheck.Equal(t, "b without a Lease", "Unknown", w.readiness("b"))

	w.renew("a")
	w.pass(0)
	steps := w.Host.Steps()
	w.renew("a")
	w.Server.UpdateStored("nodes", "", "a", func(stored fake.Object) fake.Object {
		node := stored.(*corev1.Node).DeepCopy()
		node.Status.VolumesInUse = []corev1.UniqueVolumeName{"v"}
		return node
	})
	w.pod("a2", "a", "True")
	testcheck.Equal(t, "busy after a renewal", false, w.Host.Busy())
	testcheck.Equal(t, "steps of a renewal", steps, w.Host.Steps())
	w.pass(30 * time.Second)
	w.renew("a")
	w.pass(49 * time.Second)
	testcheck.Equal(t, "a 49 s after a renewal", "True", w.readiness("a"))
	w.pass(2 * time.Second)
	testcheck.Equal(t, "a 51 s after a renewal", "Unknown:NodeStatusUnknown unreachable:NoSchedule", w.readiness("a"))
	testcheck.Equal(t, "pods", "a1 a2", w.unready())
	w.renew("b")
	w.report("b", "True")
	w.pass(11 * time.Second)
	testcheck.Equal(t, "b with a Lease", "True unschedulable:NoSchedule", w.readiness("b"))
	testcheck.Equal(t, "a with b", "Unknown:NodeStatusUnknown "+unreachable, w.readiness("a"))
	w.crash(true)
	w.NoError(w.User.CoreV1().Nodes().Delete(ctx, "b", metav1.DeleteOptions{}),
		w.User.CoordinationV1().Leases(corev1.NamespaceNodeLease).Delete(ctx, "b", metav1.DeleteOptions{}))
	w.pass(0)
	testcheck.Equal(t, "a without b", "Unknown:NodeStatusUnknown unreachable:NoSchedule", w.readiness("a"))
}
