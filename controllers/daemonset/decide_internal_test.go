package daemonset

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var now = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

// setOf returns a set with a strategy.
func setOf(unavailable, surge int) *appsv1.DaemonSet {
	u, s := intstr.FromInt(unavailable), intstr.FromInt(surge)
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{appsv1.DeprecatedTemplateGeneration: "2"}},
		Spec: appsv1.DaemonSetSpec{MinReadySeconds: 60, UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
			Type:          appsv1.RollingUpdateDaemonSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &u, MaxSurge: &s},
		}},
	}
}

// stateOf returns a state of the nodes a, b and c. Each word is a node, a sort of pod (old or new), and
// what it is: "a:old:available". A node "a!" is tainted.
func stateOf(set *appsv1.DaemonSet, words string) *state {
	var nodes []*corev1.Node
	for _, name := range []string{"a", "b", "c"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if strings.Contains(words, name+"!") {
			node.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
		}
		nodes = append(nodes, node)
	}
	var pods []*corev1.Pod
	for i, word := range strings.Fields(strings.ReplaceAll(words, "!", "")) {
		parts := strings.Split(word, ":")
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%s", parts[0], parts[1]), Labels: map[string]string{hashLabel: parts[1]}}}
		pod.CreationTimestamp = metav1.NewTime(now.Add(time.Duration(i) * time.Second))
		pod.Spec.NodeName = parts[0]
		since := map[string]time.Duration{"available": time.Hour, "ready": time.Second}[parts[2]]
		if since > 0 {
			pod.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-since)),
			}}
		}
		if parts[2] == "ending" {
			pod.DeletionTimestamp = &metav1.Time{Time: now}
		}
		pods = append(pods, pod)
	}
	return newState(set, nodes, pods, "new", now)
}

func (p plan) String() string {
	var all []string
	for _, node := range p.create {
		all = append(all, "+"+node)
	}
	for _, pod := range p.delete {
		all = append(all, "-"+pod.Name)
	}
	return strings.Join(all, " ")
}

// TestRollByDeletion: which outdated pods are deleted.
func TestRollByDeletion(t *testing.T) {
	for _, test := range []struct {
		name        string
		unavailable int
		pods, want  string
	}{
		{"all available", 1, "a:old:available b:old:available c:old:available", "-a-old"},
		{"two unavailable", 2, "a:old:available b:old:available c:old:available", "-a-old -b-old"},
		{"an old pod is not ready", 1, "a:old:available b:old:unready c:old:available", "-b-old"},
		{"all old pods are not ready", 1, "a:old:unready b:old:unready c:old:unready", "-a-old -b-old -c-old"},
		{"old pods are not available yet", 1, "a:old:ready b:old:available c:old:available", "-a-old"},
		{"a new pod is not available", 1, "a:new:ready b:old:available c:old:available", ""},
		{"a new pod is not available, two may be", 2, "a:new:ready b:old:available c:old:available", "-b-old"},
		{"new and old pods are not ready", 1, "a:new:unready b:old:unready c:old:available", "-b-old"},
		{"a node has none", 1, "b:old:available c:old:available", ""},
		{"a pod is being deleted", 1, "a:old:ending b:old:available c:old:available", ""},
		{"a node has two old pods", 1, "a:old:available a:old:available b:old:available c:old:available", ""},
		{"all new", 1, "a:new:available b:new:available c:new:available", ""},
		{"neither is allowed", 0, "a:old:available b:old:available c:old:available", "-a-old"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, err := stateOf(setOf(test.unavailable, 0), test.pods).roll()
			if got := p.String(); err != nil || got != test.want {
				t.Errorf("%q, %v, want %q", got, err, test.want)
			}
		})
	}
}

// TestRollBySurge: which nodes get a second pod, and which outdated pods are deleted.
func TestRollBySurge(t *testing.T) {
	for _, test := range []struct {
		name       string
		surge      int
		pods, want string
	}{
		{"all available", 1, "a:old:available b:old:available c:old:available", "+a"},
		{"two at once", 2, "a:old:available b:old:available c:old:available", "+a +b"},
		{"all old pods are not ready", 1, "a:old:unready b:old:unready c:old:unready", "+a +b +c"},
		{"the new pod is not available", 1, "a:old:available a:new:ready b:old:available c:old:available", ""},
		{"the new pod is available", 1, "a:old:available a:new:available b:old:available c:old:available", "+b -a-old"},
		{"not selected, not available", 1, "a!:old:unready b:new:available c:new:available", "-a-old"},
		{"not selected, enough others", 1, "a!:old:available b:new:available c:new:available", "-a-old"},
		{"not selected, too few others", 1, "a!:old:available b:new:ready c:new:available", ""},
		{"the node does not exist", 1, "d:old:available a:new:available b:new:available c:new:available", ""},
		{"a node has two old pods", 1, "a:old:available a:old:available b:old:available c:old:available", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, err := stateOf(setOf(0, test.surge), test.pods).roll()
			if got := p.String(); err != nil || got != test.want {
				t.Errorf("%q, %v, want %q", got, err, test.want)
			}
		})
	}
}

// TestLimits: the limits of an update, which may be percentages of the selected nodes. Pods do not
// matter.
func TestLimits(t *testing.T) {
	for _, test := range []struct {
		name               string
		nodes              int
		unavailable, surge string
		want               string
	}{
		{"no nodes", 0, "0", "0", "0 0"},
		{"one", 2, "1", "0", "1 0"},
		{"neither is allowed", 2, "0", "0", "1 0"},
		{"half", 2, "50%", "0", "1 0"},
		{"rounded up", 3, "34%", "0", "2 0"},
		{"a surge of half", 2, "0", "50%", "0 1"},
		{"a surge of all", 2, "0", "100%", "0 2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			set := setOf(0, 0)
			unavailable, surge := intstr.Parse(test.unavailable), intstr.Parse(test.surge)
			set.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &unavailable, MaxSurge: &surge}
			var nodes []*corev1.Node
			for i := range test.nodes {
				nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i)}})
			}
			u, s, err := newState(set, nodes, nil, "new", now).limits()
			if got := fmt.Sprint(u, s); err != nil || got != test.want {
				t.Errorf("%s, %v, want %s", got, err, test.want)
			}
		})
	}
}

// TestSurplus: of an old and a new pod of a node, the old one is deleted if it is not ready or the new one
// is available.
func TestSurplus(t *testing.T) {
	for _, test := range []struct{ name, pods, want string }{
		{"both are ready", "a:old:available a:new:ready", ""},
		{"the old pod is not ready", "a:old:unready a:new:unready", "-a-old"},
		{"the new pod is available", "a:old:available a:new:available", "-a-old"},
		{"a third pod", "a:old:available a:new:ready a:new:ready", "-a-new"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := stateOf(setOf(0, 1), "b:new:available c:new:available "+test.pods).manage()
			if got := p.String(); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// TestIsUpdated: a pod has the present template if it has its hash or its number.
func TestIsUpdated(t *testing.T) {
	for _, test := range []struct {
		name, label, value, hash string
		want                     bool
	}{
		{"templateGeneration and hash both match", hashLabel, "new", "new", true},
		{"templateGeneration matches, hash doesn't", generationLabel, "2", "new", true},
		{"templateGeneration doesn't match, hash does", hashLabel, "new", "new", true},
		{"templateGeneration and hash don't match", generationLabel, "1", "new", false},
		{"empty labels, no hash", "other", "", "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{test.label: test.value}}}
			if got := isUpdated(setOf(1, 0), pod, test.hash); got != test.want {
				t.Error(got)
			}
		})
	}
}

// TestNewTemplate: the pods of a set have the hash and the number of their template, and tolerations. A
// toleration of the template is not added twice.
func TestNewTemplate(t *testing.T) {
	set := setOf(1, 0)
	set.Spec.Template.Spec.Tolerations = []corev1.Toleration{
		{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64)},
	}
	got := newTemplate(set, "new")
	if got.Labels[hashLabel] != "new" || got.Labels[generationLabel] != "2" || len(got.Spec.Tolerations) != 6 ||
		got.Spec.Tolerations[0].TolerationSeconds != nil || len(set.Spec.Template.Labels) > 0 {
		t.Errorf("%+v", got)
	}
}

// TestNodeAffinity: the affinity of a pod names its node, and keeps what does not concern nodes.
func TestNodeAffinity(t *testing.T) {
	weights := []corev1.PreferredSchedulingTerm{{Weight: 1}}
	for name, affinity := range map[string]*corev1.Affinity{
		"nil":            nil,
		"no node":        {PodAffinity: &corev1.PodAffinity{}},
		"only preferred": {NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: weights}},
		"required": {NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{}, {}},
		}}},
	} {
		got := nodeAffinity(affinity, "a")
		node, err := nodeOf(&corev1.Pod{Spec: corev1.PodSpec{Affinity: got}})
		if err != nil || node != "a" || len(got.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms) != 1 ||
			name == "no node" && got.PodAffinity == nil ||
			name == "only preferred" && len(got.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) != 1 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// TestNodeOf: the node of a pod without one is the only value of its affinity.
func TestNodeOf(t *testing.T) {
	named := func(names ...string) *corev1.Pod {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Affinity: nodeAffinity(nil, "")}}
		pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values = names
		return pod
	}
	bound := named("a")
	bound.Spec.NodeName = "b"
	for _, test := range []struct {
		pod  *corev1.Pod
		want string
	}{{bound, "b"}, {named("a"), "a"}, {named("a", "b"), ""}, {&corev1.Pod{}, ""}} {
		if got, err := nodeOf(test.pod); got != test.want || (err != nil) != (test.want == "") {
			t.Errorf("%q, %v, want %q", got, err, test.want)
		}
	}
}

// TestIsOther: labels and taints of a node matter, its status does not.
func TestIsOther(t *testing.T) {
	node := &corev1.Node{}
	labelled, tainted, full := node.DeepCopy(), node.DeepCopy(), node.DeepCopy()
	labelled.Labels = map[string]string{"role": "a"}
	tainted.Spec.Taints = []corev1.Taint{{Key: "k"}}
	full.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeDiskPressure}}
	got := []bool{isOther(nil, node), isOther(node, labelled), isOther(node, tainted), isOther(node, full), isOther(node, node)}
	if !slices.Equal(got, []bool{true, true, true, false, false}) {
		t.Error(got)
	}
}
