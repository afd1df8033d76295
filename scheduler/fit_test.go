package scheduler

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// shelf is a set of objects by name. A claim in use is used by any other pod.
type shelf struct {
	claims  map[string]*corev1.PersistentVolumeClaim
	volumes map[string]*corev1.PersistentVolume
	classes map[string]*storagev1.StorageClass
	used    map[string]bool

	node        *storagev1.CSINode
	pods        []*corev1.Pod
	attachments []*storagev1.VolumeAttachment
}

func (s shelf) csiNode(string) *storagev1.CSINode                  { return s.node }
func (s shelf) podsOn(string, types.UID) []*corev1.Pod             { return s.pods }
func (s shelf) attachmentsTo(string) []*storagev1.VolumeAttachment { return s.attachments }

func (s shelf) claim(_, name string) *corev1.PersistentVolumeClaim { return s.claims[name] }
func (s shelf) volume(name string) *corev1.PersistentVolume        { return s.volumes[name] }
func (s shelf) class(name string) *storagev1.StorageClass          { return s.classes[name] }
func (s shelf) inUse(claim *corev1.PersistentVolumeClaim, _ types.UID) bool {
	return s.used[claim.Name]
}

func claimOf(name, class string, change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}}}
	claim.Spec.StorageClassName = &class
	for _, f := range change {
		f(claim)
	}
	return claim
}

func boundTo(volume string) func(*corev1.PersistentVolumeClaim) {
	return func(claim *corev1.PersistentVolumeClaim) {
		claim.Spec.VolumeName = volume
		claim.Annotations["pv.kubernetes.io/bind-completed"] = "yes"
	}
}

func podWith(claims ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod"}}
	for _, claim := range claims {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
	}
	return pod
}

func stocked() shelf {
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	late := &storagev1.StorageClass{Provisioner: "d", VolumeBindingMode: &mode}
	here := &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"z1"},
		}},
	}}}}
	zoned := late.DeepCopy()
	zoned.AllowedTopologies = []corev1.TopologySelectorTerm{{
		MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: "zone", Values: []string{"z1"}}},
	}}
	ready := late.DeepCopy()
	ready.Provisioner = "kubernetes.io/no-provisioner"
	s := shelf{
		classes: map[string]*storagev1.StorageClass{
			"late": late, "immediate": {Provisioner: "d"}, "zoned": zoned, "ready": ready,
		},
		volumes: map[string]*corev1.PersistentVolume{
			"v": {}, "v-z1": {Spec: corev1.PersistentVolumeSpec{NodeAffinity: here}},
		},
		claims: map[string]*corev1.PersistentVolumeClaim{},
		used:   map[string]bool{"alone-used": true},
	}
	alone := func(c *corev1.PersistentVolumeClaim) {
		c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	}
	for _, claim := range []*corev1.PersistentVolumeClaim{
		claimOf("bound", "late", boundTo("v")),
		claimOf("bound-z1", "late", boundTo("v-z1")),
		claimOf("bound-nowhere", "late", boundTo("gone")),
		claimOf("half", "late", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "v" }),
		claimOf("late", "late"),
		claimOf("late-n2", "late", func(c *corev1.PersistentVolumeClaim) {
			c.Annotations["volume.kubernetes.io/selected-node"] = "n2"
		}),
		claimOf("zoned", "zoned"), claimOf("ready", "ready"), claimOf("immediate", "immediate"),
		claimOf("classless", "none"),
		claimOf("lost", "late", boundTo("gone"),
			func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost }),
		claimOf("deleting", "late", func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = &metav1.Time{} }),
		claimOf("alone", "late", boundTo("v"), alone), claimOf("alone-used", "late", boundTo("v"), alone),
		claimOf("pod-scratch", "late"),
	} {
		s.claims[claim.Name] = claim
	}
	return s
}

func TestClaimsOf(t *testing.T) {
	scratch := podWith()
	scratch.Spec.Volumes = []corev1.Volume{{
		Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}},
	}}
	missing := podWith()
	missing.Spec.Volumes = []corev1.Volume{{
		Name: "none", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}},
	}}
	tests := []struct {
		pod            *corev1.Pod
		bound, delayed []string
		want           string
	}{
		{pod: podWith()},
		{pod: podWith("bound", "late", "late-n2"), bound: []string{"bound"}, delayed: []string{"late", "late-n2"}},
		{pod: podWith("bound", "x"), want: `persistentvolumeclaim "x" not found`},
		{pod: podWith("lost"), want: `persistentvolumeclaim "lost" bound to non-existent persistentvolume "gone"`},
		{pod: podWith("deleting"), want: `persistentvolumeclaim "deleting" is being deleted`},
		{pod: podWith("immediate"), want: "pod has unbound immediate PersistentVolumeClaims"},
		{pod: podWith("classless"), want: "pod has unbound immediate PersistentVolumeClaims"},
		{pod: podWith("half"), want: "pod has unbound immediate PersistentVolumeClaims"},
		{pod: podWith("immediate", "x"), want: `persistentvolumeclaim "x" not found`},
		{pod: scratch, want: "PVC /pod-scratch was not created for pod /pod (pod is not owner)"},
		{pod: missing, want: `waiting for ephemeral volume controller to create the persistentvolumeclaim "pod-none"`},
	}
	for _, test := range tests {
		claims, err := claimsOf(test.pod, stocked())
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%v: %q, want %q", claimNames(test.pod), got, test.want)
		}
		if diff := cmp.Diff([][]string{test.bound, test.delayed}, [][]string{
			namesOf(claims.bound), namesOf(claims.delayed),
		}); diff != "" {
			t.Errorf("%v: bound and delayed (-want +got):\n%s", claimNames(test.pod), diff)
		}
	}
}

func node(name, zone string, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": zone}}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	for _, f := range change {
		f(n)
	}
	return n
}

func TestUnfit(t *testing.T) {
	ready := func(status corev1.ConditionStatus) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Status.Conditions[0].Status = status }
	}
	cordoned := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	tainted := func(effect corev1.TaintEffect) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: effect}} }
	}
	selective, tolerant := podWith(), podWith()
	selective.Spec.NodeSelector = map[string]string{"zone": "z1"}
	tolerant.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	tests := []struct {
		name string
		pod  *corev1.Pod
		node *corev1.Node
		want []string
	}{
		{"fits", podWith(), node("n1", "z1"), nil},
		{"cordoned", podWith(), node("n1", "z1", cordoned), []string{reasonUnschedulable}},
		{"not ready", podWith(), node("n1", "z1", ready(corev1.ConditionFalse)), []string{reasonTaint}},
		{"unknown", podWith(), node("n1", "z1", ready(corev1.ConditionUnknown)), []string{reasonTaint}},
		{"never reported readiness", podWith(), &corev1.Node{}, []string{reasonTaint}},
		{"tainted", podWith(), node("n1", "z1", tainted(corev1.TaintEffectNoExecute)), []string{reasonTaint}},
		{"tainted with PreferNoSchedule", podWith(), node("n1", "z1", tainted(corev1.TaintEffectPreferNoSchedule)), nil},
		{
			"tolerates everything", tolerant,
			node("n1", "z1", cordoned, ready(corev1.ConditionFalse), tainted(corev1.TaintEffectNoSchedule)), nil,
		},
		{"selected", selective, node("n1", "z1"), nil},
		{"not selected", selective, node("n1", "z2"), []string{reasonAffinity}},
		{"bound", podWith("bound", "bound-z1"), node("n1", "z1"), nil},
		{"bound in another zone", podWith("bound-z1"), node("n1", "z2"), []string{reasonVolumeAffinity}},
		{"bound to a deleted volume", podWith("bound-nowhere"), node("n1", "z1"), []string{reasonVolumeGone}},
		{"delayed", podWith("late"), node("n1", "z1"), nil},
		{"delayed, for this node", podWith("late-n2"), node("n2", "z1"), nil},
		{"delayed, for another node", podWith("late-n2"), node("n1", "z1"), []string{reasonNoVolume}},
		{"topology", podWith("zoned"), node("n1", "z1"), nil},
		{"another topology", podWith("zoned"), node("n1", "z2"), []string{reasonNoVolume}},
		{"existing volumes", podWith("ready"), node("n1", "z1"), []string{reasonNoVolume}},
		{"both", podWith("bound-z1", "zoned"), node("n1", "z2"), []string{reasonVolumeAffinity, reasonNoVolume}},
		{"alone", podWith("alone"), node("n1", "z1"), nil},
		{"not alone", podWith("alone-used"), node("n1", "z1"), []string{reasonReadWriteOncePod}},
	}
	for _, test := range tests {
		claims, err := claimsOf(test.pod, stocked())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, unfit(test.pod, test.node, claims, stocked())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestChoose(t *testing.T) {
	reasons := map[string][]string{"a": {"x"}, "b": {"y", "x"}, "c": nil}
	of := func(n *corev1.Node) []string { return reasons[n.Name] }
	a, b, c := node("a", ""), node("b", ""), node("c", "")
	for _, test := range []struct {
		nodes   []*corev1.Node
		want    *corev1.Node
		message string
	}{
		{nil, nil, "no nodes available to schedule pods"},
		{[]*corev1.Node{a, b, c}, c, ""},
		{[]*corev1.Node{a, b}, nil, "0/2 nodes are available: 1 y, 2 x."},
	} {
		got, message := choose(test.nodes, of)
		if got != test.want || message != test.message {
			t.Errorf("chose %v, %q; want %v, %q", got, message, test.want, test.message)
		}
	}
}

func TestCheckAwaited(t *testing.T) {
	here := func(c *corev1.PersistentVolumeClaim) { c.Annotations["volume.kubernetes.io/selected-node"] = "n1" }
	for name, test := range map[string]struct {
		claim *corev1.PersistentVolumeClaim
		bound bool
		fails bool
	}{
		"gone":       {nil, false, true},
		"unbound":    {claimOf("c", "late", here), false, false},
		"given back": {claimOf("c", "late"), false, true},
		"half bound": {
			claimOf("c", "late", here, func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "v" }),
			false, false,
		},
		"bound":         {claimOf("c", "late", here, boundTo("v")), true, false},
		"volume unseen": {claimOf("c", "late", here, boundTo("w")), false, false},
		"volume astray": {claimOf("c", "late", here, boundTo("v-z1")), false, true},
	} {
		from := stocked()
		from.claims["c"] = test.claim
		bound, err := checkAwaited("", "c", node("n1", "z2"), from)
		if bound != test.bound || (err != nil) != test.fails {
			t.Errorf("%s: %v, %v; want %v, an error: %v", name, bound, err, test.bound, test.fails)
		}
	}
}
