package nodevolumelimits

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

func pods(claims ...string) []*corev1.Pod { return []*corev1.Pod{newPod(claims...)} }

// Each case has the volumes on a node with a limit, and those of a pod.
//
// Upstream: pkg/scheduler/framework/plugins/nodevolumelimits TestCSILimits (v1.36).
func TestLimit(t *testing.T) {
	for _, test := range []struct {
		name     string
		brings   []string
		limit    int32
		pods     []*corev1.Pod
		attached []string // volumes
		want     bool     // it exceeds the limit
	}{
		{name: "attachments alone fill the node", brings: []string{"d1"}, limit: 2, attached: []string{"d2", "d3"}, want: true},
		{name: "attachments leave room", brings: []string{"d1"}, limit: 3, attached: []string{"d2", "d3"}},
		{name: "pods leave room", brings: []string{"d1"}, limit: 4, pods: pods("d2", "d3", "e1")},
		{name: "pods fill the node", brings: []string{"d1"}, limit: 2, pods: pods("d2", "d3"), want: true},
		{name: "the node has no limit", brings: []string{"d1"}, limit: -1, pods: pods("d2", "d3")},
		{name: "an unbound claim counts", brings: []string{"d1"}, limit: 2, pods: append(pods("d2"), newPod("wait")), want: true},
		{
			name: "an unbound claim of two pods counts once", brings: []string{"d1"}, limit: 3,
			pods: append(pods("d2", "wait"), newPod("wait")),
		},
		{
			name: "two unbound claims count twice", brings: []string{"d1"}, limit: 3,
			pods: append(pods("d2", "wait"), newPod("wait2")), want: true,
		},
		{name: "a claim with a deleted volume counts by its class", brings: []string{"d1"}, limit: 2, pods: pods("d2", "lost"), want: true},
		{name: "a claim without a class does not count", brings: []string{"d1"}, limit: 2, pods: pods("d2", "odd")},
		{name: "a deleted claim does not count", brings: []string{"d1"}, limit: 2, pods: pods("d2", "none")},
		{name: "volumes of another driver do not count", brings: []string{"d1"}, limit: 2, pods: pods("d2", "e1", "e2")},
		{
			name: "volumes of several drivers, one of them full", brings: []string{"d1"}, limit: 2,
			pods: pods("d2", "d3", "e1"), want: true,
		},
		{name: "a pod with volumes of another driver", brings: []string{"e1", "e2"}, limit: 2, pods: pods("d2", "d3")},
		{name: "a directory does not count", brings: []string{"d1"}, limit: 2, pods: pods("d2", "dir")},
		{name: "a pod with unbound claims", brings: []string{"wait", "wait2"}, limit: 2, pods: pods("d2"), want: true},
		{name: "a pod that exceeds the limit alone", brings: []string{"d1", "d2", "d3"}, limit: 2, want: true},
		{name: "a pod that reaches the limit", brings: []string{"d1", "d2"}, limit: 2},
		{name: "a volume in use on the node", brings: []string{"d1"}, limit: 2, pods: pods("d1", "d2")},
		{
			name: "one in use on the node, and one that is not", brings: []string{"d1", "d3"}, limit: 2,
			pods: pods("d1", "d2"), want: true,
		},
		{name: "the same handle under another name", brings: []string{"twin"}, limit: 1, pods: pods("d1")},
		{name: "the same handle of another driver", brings: []string{"d1"}, limit: 1, pods: pods("e1")},
		{
			name: "an attached volume that a pod uses counts once", brings: []string{"d1"}, limit: 3,
			pods: pods("d2", "d3"), attached: []string{"d2", "d3"},
		},
		{name: "an attached volume that no pod uses any more", brings: []string{"d1"}, limit: 1, attached: []string{"d1"}},
		{
			name: "a volume to attach to a full node", brings: []string{"d1"}, limit: 1,
			pods: pods("d2"), attached: []string{"d1", "d2"}, want: true,
		},
		{name: "an attachment of a deleted volume does not count", brings: []string{"d1"}, limit: 1, attached: []string{"none"}},
		{name: "the node is beyond its limit", brings: []string{"d1"}, limit: 1, pods: pods("d1", "d2")},
		{name: "the limit is zero", brings: []string{"d1"}, limit: 0, want: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.add(limited("d", test.limit))
			w.attach(test.attached...)
			w.check(test.want, newPod(test.brings...), test.pods...)
		})
	}
}

// check expects that Filter lets the pod pass, or rejects it for the limit.
func (w *world) check(exceeds bool, pod *corev1.Pod, others ...*corev1.Pod) {
	w.Helper()
	var want *framework.Status
	if exceeds {
		want = framework.NewStatus(framework.Unschedulable, "node(s) exceed max volume count")
	}
	pre, got := w.filter(pod, others...)
	if pre != nil {
		w.Fatalf("PreFilter answers %v", pre)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("Filter (-want +got):\n%s", diff)
	}
}

// Volumes of migrated plugins count as those of their CSI drivers.
//
// Upstream: pkg/scheduler/framework/plugins/nodevolumelimits TestCSILimits (v1.36).
func TestMigratedVolumes(t *testing.T) {
	inline := func(id string) *corev1.Pod { return with(corev1.VolumeSource{AWSElasticBlockStore: ebs(id)}) }
	for _, test := range []struct {
		name  string
		pod   *corev1.Pod
		there *corev1.Pod
		limit int32
		want  bool
	}{
		{"bound ones", newPod("in"), newPod("in2", "csi"), 2, true},
		{"a bound one, and one of CSI", newPod("in"), newPod("csi"), 1, true},
		{"one of CSI, and a bound one", newPod("csi"), newPod("in"), 1, true},
		{"there is room", newPod("in"), newPod("csi"), 2, false},
		{"the node has no limit", newPod("in"), newPod("csi"), -1, false},
		{"an unbound one", newPod("in-wait"), newPod("in"), 1, true},
		{"inline in the pod", inline("vol-3"), newPod("csi", "in"), 2, true},
		{"inline in another pod", newPod("csi"), inline("vol-3"), 1, true},
		{"inline, and in use on the node", inline("vol-2"), newPod("csi"), 1, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.add(limited("ebs.csi.aws.com", test.limit))
			w.check(test.want, test.pod, test.there)
		})
	}
	t.Run("the node has no CSINode", func(t *testing.T) { newWorld(t).check(false, inline("vol-3"), newPod("in", "csi")) })
}

// Upstream: pkg/scheduler/framework/plugins/nodevolumelimits TestCSILimits (v1.36).
func TestEphemeralVolumes(t *testing.T) {
	pod, other := ephemeralPod("pod"), ephemeralPod("other")
	for _, test := range []struct {
		name  string
		limit int32
		own   bool
		want  bool
	}{
		{"its claim counts", 1, true, true},
		{"there is room", 2, true, false},
		{"another's claim of its name does not count", 1, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.add(limited("d", test.limit), ephemeralClaim(other, test.own), ephemeralClaim(pod, true))
			w.check(test.want, newPod("d1"), other)
			w.check(test.limit < 2, pod, newPod("d1"))
		})
	}
	t.Run("both are ephemeral", func(t *testing.T) {
		w := newWorld(t)
		w.add(limited("d", 1), ephemeralClaim(other, true), ephemeralClaim(pod, true))
		w.check(true, pod, other)
	})
	t.Run("no limit", func(t *testing.T) {
		w := newWorld(t)
		w.add(limited("d", -1), ephemeralClaim(pod, true))
		w.check(false, pod)
	})
}

// A claim of the pod that does not exist, or that belongs to another pod.
//
// Upstream: pkg/scheduler/framework/plugins/nodevolumelimits TestCSILimits (v1.36).
func TestBadClaims(t *testing.T) {
	pod := ephemeralPod("pod")
	both := with(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}, corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}})
	w := newWorld(t)
	w.add(limited("d", -1))
	for _, test := range []struct {
		pod  *corev1.Pod
		code framework.Code
		want string
	}{
		{pod, framework.UnschedulableAndUnresolvable, `looking up PVC default/pod-own: persistentvolumeclaim "pod-own" not found`},
		{both, framework.UnschedulableAndUnresolvable, `looking up PVC default/pod-own: persistentvolumeclaim "pod-own" not found`},
		{newPod("d1", "none"), framework.UnschedulableAndUnresolvable, `looking up PVC default/none: persistentvolumeclaim "none" not found`},
	} {
		if pre, got := w.filter(test.pod); pre != nil || got.CodeOf() != test.code || got.Message() != test.want {
			t.Errorf("PreFilter %v, Filter %v: %q, want %v: %q", pre, got.CodeOf(), got.Message(), test.code, test.want)
		}
	}
	w.add(ephemeralClaim(pod, false))
	const want = "PVC default/pod-own was not created for pod default/pod (pod is not owner)"
	if pre, got := w.filter(pod); pre != nil || got.CodeOf() != framework.Error || got.Message() != want {
		t.Errorf("PreFilter %v, Filter %v: %q, want %q", pre, got.CodeOf(), got.Message(), want)
	}
}

// Upstream: pkg/scheduler/framework/plugins/nodevolumelimits TestCSILimits (v1.36).
func TestSkip(t *testing.T) {
	unmigrated := corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}
	secret := corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}
	withClaim := newPod("d1")
	withClaim.Spec.Volumes = append(withClaim.Spec.Volumes, with(unmigrated, secret).Spec.Volumes...)
	inline := corev1.VolumeSource{AWSElasticBlockStore: ebs("vol-3")}
	for _, test := range []struct {
		name string
		pod  *corev1.Pod
		want *framework.Status
	}{
		{"no volumes", newPod(), framework.SkipCycle},
		{"configMap and secret", with(unmigrated, secret), framework.SkipCycle},
		{"a directory", newPod("dir"), framework.SkipCycle},
		{"a claim among others", withClaim, nil},
		{"an inline volume among others", with(unmigrated, secret, inline), nil},
	} {
		w := newWorld(t)
		w.add(limited("d", 2), limited("ebs.csi.aws.com", 2))
		pre, filter := w.filter(test.pod)
		if pre != test.want || filter != nil {
			t.Errorf("%s: PreFilter %v, want %v; Filter %v", test.name, pre, test.want, filter)
		}
	}
}

func TestNodeWithoutACSINodeHasNoLimits(t *testing.T) {
	newWorld(t).check(false, newPod("d1"), newPod("d2"))
}

// Upstream: pkg/scheduler/framework/plugins/nodevolumelimits TestCSILimitsAfterCSINodeUpdatedQHint
// (v1.36).
func TestLimitRaised(t *testing.T) {
	gone := limited("d", 1)
	gone.Spec.Drivers = nil
	for _, test := range []struct {
		name    string
		was, is *storagev1.CSINode
		want    bool
	}{
		{"raised", limited("d", 1), limited("d", 2), true},
		{"lowered", limited("d", 2), limited("d", 1), false},
		{"the same", limited("d", 2), limited("d", 2), false},
		{"no more", limited("d", 2), limited("d", -1), true},
		{"the driver is gone", limited("d", 2), gone, true},
		{"new", limited("d", -1), limited("d", 2), false},
	} {
		if got := hints(t, framework.CSINode, framework.UpdateOther, newPod("d1"), test.was, test.is); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
	if !hints(t, framework.CSINode, framework.Add, newPod("d1"), nil, limited("d", 2)) {
		t.Error("a new CSINode does not concern the pod")
	}
}

// hints reports whether a change may help a pod that the plugin rejected.
func hints(t *testing.T, resource framework.EventResource, action framework.ActionType, pod *corev1.Pod, old, new any) bool {
	event := &framework.Event{Resource: resource, Action: action, Old: old, New: new}
	for _, hint := range newWorld(t).Events() {
		if hint.Matches(event, pod) {
			return true
		}
	}
	return false
}

// Upstream: pkg/scheduler/framework/plugins/nodevolumelimits TestCSILimitsQHint (v1.36).
func TestDeletedPod(t *testing.T) {
	on := func(node, nominated string, pod *corev1.Pod) *corev1.Pod {
		pod.Spec.NodeName, pod.Status.NominatedNodeName = node, nominated
		return pod
	}
	for _, test := range []struct {
		name    string
		deleted *corev1.Pod
		want    bool
	}{
		{"with a claim", on("n", "", newPod("any")), true},
		{"with an ephemeral volume", on("n", "", ephemeralPod("other")), true},
		{"with a migrated volume", on("n", "", with(corev1.VolumeSource{AWSElasticBlockStore: ebs("v")})), true},
		{"without volumes", on("n", "", newPod()), false},
		{"with others only", on("n", "", with(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})), false},
		{"not on a node", on("", "", newPod("d2")), false},
		{"that was to come to a node", on("", "n", newPod("d2")), true},
	} {
		if got := hints(t, framework.Pod, framework.Delete, newPod("d1"), test.deleted, nil); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// Upstream: pkg/scheduler/framework/plugins/nodevolumelimits TestCSILimitsAddedPVCQHint (v1.36).
func TestAddedClaim(t *testing.T) {
	elsewhere := claim("d1", "d", "")
	elsewhere.Namespace = "other"
	for _, test := range []struct {
		name  string
		pod   *corev1.Pod
		claim *corev1.PersistentVolumeClaim
		want  bool
	}{
		{"in another namespace", newPod("d1"), elsewhere, false},
		{"of the pod", newPod("e1", "d1"), claim("d1", "d", ""), true},
		{"of its ephemeral volume", ephemeralPod("pod"), claim("pod-own", "d", ""), true},
		{"of another pod", newPod("d1"), claim("d2", "d", ""), false},
		{"the pod has none", newPod(), claim("d2", "d", ""), false},
	} {
		if got := hints(t, framework.PersistentVolumeClaim, framework.Add, test.pod, nil, test.claim); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// Upstream: pkg/scheduler/framework/plugins/nodevolumelimits TestCSILimitsDeletedVolumeAttachmentQHint
// (v1.36).
func TestDeletedAttachment(t *testing.T) {
	inline := corev1.VolumeSource{AWSElasticBlockStore: ebs("test")}
	both := with(inline)
	both.Spec.Volumes = append(both.Spec.Volumes, newPod("d1").Spec.Volumes...)
	for _, test := range []struct {
		name     string
		pod      *corev1.Pod
		attacher string
		want     bool
	}{
		{"a pod with a claim", newPod("d1"), "another", true},
		{"with an ephemeral volume", ephemeralPod("pod"), "another", true},
		{"with a migrated volume of the driver", with(inline), "ebs.csi.aws.com", true},
		{"of another driver", with(corev1.VolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: "test"}}), "ebs.csi.aws.com", false},
		{"with a migrated volume of the driver and a claim", both, "ebs.csi.aws.com", true},
		{"with a migrated volume of another driver and a claim", both, "another", true},
		{"without volumes", newPod(), "another", false},
	} {
		attachment := &storagev1.VolumeAttachment{Spec: storagev1.VolumeAttachmentSpec{NodeName: "n", Attacher: test.attacher}}
		if got := hints(t, framework.VolumeAttachment, framework.Delete, test.pod, attachment, nil); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

func TestWhatCounts(t *testing.T) {
	w := newWorld(t)
	w.add(limited("d", 1))
	for attacher, want := range map[string]bool{"d": true, "e": false, "x": false} {
		a := &storagev1.VolumeAttachment{Spec: storagev1.VolumeAttachmentSpec{NodeName: "n", Attacher: attacher}}
		if got := CountsAgainstLimit(w.informers, a); got != want {
			t.Errorf("an attachment of %s counts: %v, want %v", attacher, got, want)
		}
		a.Spec.NodeName = "another"
		if CountsAgainstLimit(w.informers, a) {
			t.Errorf("an attachment of %s to a node without a CSINode counts", attacher)
		}
	}
	if !HasLimits(limited("d", 0)) || HasLimits(limited("d", -1)) {
		t.Error("HasLimits is wrong")
	}
}

// The plugin allocates nothing for a pod that has no volumes that count.
func TestSkipAllocatesNothing(t *testing.T) {
	w := newWorld(t)
	info, err := framework.NewPodInfo(with(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}))
	if err != nil {
		t.Fatal(err)
	}
	cycle := framework.NewCycle(info, nil)
	if got := testing.AllocsPerRun(100, func() { _, _ = w.PreFilter(cycle) }); got != 0 {
		t.Errorf("%v allocations", got)
	}
}
