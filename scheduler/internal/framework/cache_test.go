package framework_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

func node(name, zone string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if zone != "" {
		n.Labels = map[string]string{corev1.LabelTopologyZone: zone}
	}
	return n
}

func pod(name, on string, claims ...string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec:       corev1.PodSpec{NodeName: on, Containers: []corev1.Container{{Name: "c"}}},
	}
	for _, claim := range claims {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
	}
	return p
}

// text returns the nodes of a snapshot in their order, each with its pods.
func text(s *framework.Snapshot) string {
	var all []string
	for i, info := range s.Nodes() {
		if s.Node(info.Name()) != s.Nodes()[i] {
			return "not found: " + info.Name()
		}
		text := info.Name()
		for _, p := range info.Pods {
			text += ":" + p.Pod.Name
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// TestOrder: zones take turns.
func TestOrder(t *testing.T) {
	c := framework.NewCache()
	for _, n := range []*corev1.Node{node("d", "x"), node("c", "y"), node("b", "x"), node("a", "x"), node("e", "")} {
		c.SetNode(n)
	}
	if got := text(c.Snapshot()); got != "e a c b d" {
		t.Error(got)
	}
	c.SetNode(node("b", "y"))
	c.RemoveNode("e")
	if got := text(c.Snapshot()); got != "a b d c" {
		t.Error(got)
	}
}

// TestSnapshot: a snapshot does not change, whatever happens.
func TestSnapshot(t *testing.T) {
	c := framework.NewCache()
	c.SetNode(node("a", ""))
	c.SetNode(node("b", ""))
	c.SetPod(pod("p", "a", "data"))
	before := c.Snapshot()
	data := cache.NewObjectName("default", "data")
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() { c.Assume(pod("q", "", "data"), "b") }, "a:p b:q true"},
		{func() { c.RemovePod("p") }, "a b:q true"},
		{func() { c.SetPod(pod("q", "a", "data")) }, "a:q b true"}, // the API server has it elsewhere
		{func() { c.SetPod(pod("o", "a")) }, "a:o:q b true"},
		{func() { c.RemovePod("q") }, "a:o b false"},
		{func() { c.RemoveNode("a") }, "b false"},
		{func() { c.SetPod(pod("r", "c")) }, "b false"}, // on a node that is not known yet
		{func() { c.SetNode(node("c", "")) }, "b c:r false"},
		{func() { c.SetNode(node("a", "")) }, "a:o b c:r false"},
		{func() { c.RemovePod("o"); c.RemovePod("r") }, "a b c false"},
	} {
		step.do()
		now := c.Snapshot()
		if got := fmt.Sprint(text(now), " ", now.ClaimInUse(data)); got != step.want {
			t.Errorf("%s, want %s", got, step.want)
		}
		if got := fmt.Sprint(text(before), before.ClaimInUse(data)); got != "a:p btrue" {
			t.Fatalf("the first snapshot is now %s", got)
		}
	}
}

func TestIsAssumed(t *testing.T) {
	c := framework.NewCache()
	p := pod("p", "")
	c.Assume(p, "a")
	if !c.IsAssumed(p.UID) {
		t.Error("not assumed")
	}
	c.SetPod(pod("p", "a"))
	if c.IsAssumed(p.UID) {
		t.Error("assumed, though the API server has it")
	}
}

// TestRequested: what the pods of a node request. A container without requests counts a default where
// nodes are ranked.
func TestRequested(t *testing.T) {
	c := framework.NewCache()
	n := node("a", "")
	n.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("1Gi"), corev1.ResourcePods: resource.MustParse("10"),
		corev1.ResourceEphemeralStorage: resource.MustParse("5"), "example.com/gpu": resource.MustParse("2"), "invalid": resource.MustParse("7"),
	}
	c.SetNode(n)
	big := pod("big", "a")
	big.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1500m"), "example.com/gpu": resource.MustParse("1"),
	}
	big.Spec.InitContainers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceMemory: resource.MustParse("1Mi"),
	}}}}
	c.SetPod(big)
	c.SetPod(pod("small", "a"))
	info := c.Snapshot().Node("a")
	got := fmt.Sprint(info.Requested, info.NonZeroMilliCPU, info.NonZeroMemory, info.Allocatable, info.Unlimited)
	if want := "{1500 1048576 0 0 map[example.com/gpu:1]} 1600 419430400 {4000 1073741824 5 10 map[example.com/gpu:2]} false"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	c.RemovePod("big")
	c.RemovePod("small")
	info = c.Snapshot().Node("a")
	if got := fmt.Sprint(info.Requested, info.NonZeroMilliCPU, info.NonZeroMemory); got != "{0 0 0 0 map[example.com/gpu:0]} 0 0" {
		t.Error(got)
	}
	c.SetNode(node("bare", ""))
	if !c.Snapshot().Node("bare").Unlimited {
		t.Error("a node without resources is limited")
	}
}

// TestPodInfo: the terms of a pod's affinity.
func TestPodInfo(t *testing.T) {
	term := func(app string, namespaces ...string) corev1.PodAffinityTerm {
		return corev1.PodAffinityTerm{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, TopologyKey: "zone", Namespaces: namespaces,
		}
	}
	p := pod("p", "")
	p.Spec.Affinity = &corev1.Affinity{
		PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term("web")}},
		PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution:  []corev1.PodAffinityTerm{term("web", "other")},
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 7, PodAffinityTerm: term("db")}},
		},
	}
	info, err := framework.NewPodInfo(p)
	if err != nil {
		t.Fatal(err)
	}
	web := pod("web", "")
	web.Labels = map[string]string{"app": "web"}
	if !info.RequiredAffinity[0].Matches(web, nil) || info.RequiredAntiAffinity[0].Matches(web, nil) {
		t.Error("a term without namespaces selects pods of the pod's namespace, another those of its namespaces")
	}
	if got := info.PreferredAntiAffinity[0]; got.Weight != 7 || got.TopologyKey != "zone" {
		t.Errorf("%+v", got)
	}
	c := framework.NewCache()
	c.SetPod(p)
	c.Assume(p, "a")
	c.SetNode(node("a", ""))
	if info := c.Snapshot().Node("a"); len(info.WithAffinity) != 1 || len(info.WithRequiredAntiAffinity) != 1 {
		t.Errorf("%d pods with affinity", len(info.WithAffinity))
	}
	p.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "x", Operator: "?"}}
	if _, err := framework.NewPodInfo(p); err == nil || !strings.Contains(err.Error(), "requiredAffinityTerms") {
		t.Errorf("error %v", err)
	}
}
