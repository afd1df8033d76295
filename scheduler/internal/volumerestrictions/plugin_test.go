package volumerestrictions

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

func newPlugin(t *testing.T, claims ...*corev1.PersistentVolumeClaim) *Plugin {
	t.Helper()
	factory := informers.NewSharedInformerFactory(nil, 0)
	p := New(framework.Handle{Informers: factory})
	for _, claim := range claims {
		if err := factory.Core().V1().PersistentVolumeClaims().Informer().GetIndexer().Add(claim); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func newPod(name string, sources ...corev1.VolumeSource) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	for _, source := range sources {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{VolumeSource: source})
	}
	return pod
}

// on returns the pod with a node.
func on(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.NodeName = "node-1"
	return pod
}

func claimNamed(name string) corev1.VolumeSource {
	return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
}

func newClaim(name string, mode corev1.PersistentVolumeAccessMode) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{mode}},
	}
}

func podInfo(t *testing.T, pod *corev1.Pod) *framework.PodInfo {
	t.Helper()
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// newCycle returns a cycle about a pod in a world with other pods on a node.
func newCycle(t *testing.T, pod *corev1.Pod, others ...*corev1.Pod) *framework.Cycle {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	return framework.NewCycle(podInfo(t, pod), framework.NewSnapshot([]*corev1.Node{node}, others))
}

// The disks, each with another one that has nothing to do with it.
var (
	gce = func(name string, readOnly bool) corev1.VolumeSource {
		return corev1.VolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: name, ReadOnly: readOnly}}
	}
	aws = func(id string, readOnly bool) corev1.VolumeSource {
		return corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: id, ReadOnly: readOnly}}
	}
	iscsi = func(name string, readOnly bool) corev1.VolumeSource {
		return corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{
			TargetPortal: "127.0.0.1:3260", IQN: "iqn.2016-12.server:" + name, FSType: "ext4", ReadOnly: readOnly,
		}}
	}
	rbd = func(pool, image string, readOnly bool, monitors ...string) corev1.VolumeSource {
		return corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{
			CephMonitors: monitors, RBDPool: pool, RBDImage: image, FSType: "ext4", ReadOnly: readOnly,
		}}
	}
)

// Upstream: pkg/scheduler/framework/plugins/volumerestrictions TestGCEDiskConflicts,
// TestAWSDiskConflicts, TestRBDDiskConflicts, TestISCSIDiskConflicts, Test_isSchedulableAfterPodDeleted
// (v1.36).
func TestDisks(t *testing.T) {
	type source = corev1.VolumeSource
	for _, test := range []struct {
		name       string
		pod, there []source
		skip, want bool
	}{
		{name: "nothing", skip: true},
		{name: "a disk of another pod", there: []source{gce("a", false)}, skip: true},
		{name: "GCE, the same", pod: []source{gce("a", false)}, there: []source{gce("a", false)}, want: true},
		{name: "GCE, another", pod: []source{gce("b", false)}, there: []source{gce("a", false)}},
		{name: "GCE, one writes", pod: []source{gce("a", true)}, there: []source{gce("a", false)}, want: true},
		{name: "GCE, both read", pod: []source{gce("a", true)}, there: []source{gce("a", true)}},
		{name: "a volume of another kind", pod: []source{{}}, there: []source{gce("a", false)}, skip: true},
		{name: "AWS, a disk of another pod", there: []source{aws("a", false)}, skip: true},
		{name: "AWS, the same", pod: []source{aws("a", false)}, there: []source{aws("a", false)}, want: true},
		{name: "AWS, another", pod: []source{aws("b", false)}, there: []source{aws("a", false)}},
		{name: "AWS, both read", pod: []source{aws("a", true)}, there: []source{aws("a", true)}, want: true},
		{name: "RBD, a disk of another pod", there: []source{rbd("p", "i", false, "a")}, skip: true},
		{name: "RBD, the same", pod: []source{rbd("p", "i", false, "a", "b")}, there: []source{rbd("p", "i", false, "b", "c")}, want: true},
		{name: "RBD, other monitors", pod: []source{rbd("p", "i", false, "a", "b")}, there: []source{rbd("p", "i", false, "c", "d")}},
		{name: "RBD, another pool", pod: []source{rbd("p", "i", false, "a")}, there: []source{rbd("q", "i", false, "a")}},
		{name: "RBD, another image", pod: []source{rbd("p", "i", false, "a")}, there: []source{rbd("p", "j", false, "a")}},
		{name: "RBD, both read", pod: []source{rbd("p", "i", true, "a")}, there: []source{rbd("p", "i", true, "a")}},
		{name: "iSCSI, a disk of another pod", there: []source{iscsi("a", false)}, skip: true},
		{name: "iSCSI, the same", pod: []source{iscsi("a", false)}, there: []source{iscsi("a", false)}, want: true},
		{name: "iSCSI, another", pod: []source{iscsi("b", false)}, there: []source{iscsi("a", false)}},
		{name: "iSCSI, both read", pod: []source{iscsi("a", true)}, there: []source{iscsi("a", true)}},
		{name: "of two kinds", pod: []source{gce("a", false)}, there: []source{aws("a", false)}},
		{name: "the second of each", pod: []source{gce("x", false), aws("a", false)}, there: []source{gce("y", false), aws("a", false)}, want: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, pod, other := newPlugin(t), newPod("pod", test.pod...), on(newPod("other", test.there...))
			cycle := newCycle(t, pod, other)
			_, pre := p.PreFilter(cycle)
			if skipped := pre == framework.SkipCycle; skipped != test.skip {
				t.Fatalf("PreFilter answers %v", pre)
			}
			if !test.skip {
				want := (*framework.Status)(nil)
				if test.want {
					want = framework.NewStatus(framework.Unschedulable, "node(s) had no available disk")
				}
				if diff := cmp.Diff(want, p.Filter(cycle, cycle.Snapshot.Node("node-1"))); diff != "" {
					t.Errorf("Filter (-want +got):\n%s", diff)
				}
			}
			if got := hints(t, framework.Pod, framework.Delete, pod, other, nil); got != test.want {
				t.Errorf("the deletion of the other pod may help: %v, want %v", got, test.want)
			}
			other.Namespace = "another"
			if got := hints(t, framework.Pod, framework.Delete, pod, other, nil); got != test.want {
				t.Errorf("the deletion of a pod in another namespace may help: %v, want %v", got, test.want)
			}
		})
	}
}

// hints reports whether a change may help a pod that the plugin rejected.
func hints(t *testing.T, resource framework.EventResource, action framework.ActionType, pod *corev1.Pod, old, new any) bool {
	event := &framework.Event{Resource: resource, Action: action, Old: old, New: new}
	for _, hint := range newPlugin(t).Events() {
		if hint.Matches(event, pod) {
			return true
		}
	}
	return false
}

var inUse = framework.NewStatus(framework.Unschedulable,
	"node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod")

// Upstream: pkg/scheduler/framework/plugins/volumerestrictions TestAccessModeConflicts (v1.36).
func TestReadWriteOncePod(t *testing.T) {
	first, second := newClaim("first", corev1.ReadWriteOncePod), newClaim("second", corev1.ReadWriteOncePod)
	many := newClaim("many", corev1.ReadWriteMany)
	elsewhere := on(newPod("other", claimNamed("first")))
	elsewhere.Namespace = "another"
	for _, test := range []struct {
		name        string
		pod         *corev1.Pod
		others      []*corev1.Pod
		claims      []*corev1.PersistentVolumeClaim
		pre, filter *framework.Status
	}{
		{name: "nothing", pod: newPod("pod"), pre: framework.SkipCycle},
		{
			name: "the claim does not exist", pod: newPod("pod", claimNamed("first")),
			pre: framework.NewStatus(framework.UnschedulableAndUnresolvable, `persistentvolumeclaim "first" not found`),
		},
		{
			name: "another claim is in use", pod: newPod("pod", claimNamed("first")), others: []*corev1.Pod{on(newPod("other", claimNamed("many")))},
			pre: framework.SkipCycle,
		},
		{
			name: "the claim is in use", pod: newPod("pod", claimNamed("first")),
			others: []*corev1.Pod{on(newPod("other", claimNamed("first"))), on(newPod("third", claimNamed("many")))},
			filter: inUse,
		},
		{
			name: "two claims are in use", pod: newPod("pod", claimNamed("first"), claimNamed("second")),
			others: []*corev1.Pod{on(newPod("other", claimNamed("first"), claimNamed("second"))), on(newPod("third", claimNamed("many")))},
			filter: inUse,
		},
		{name: "a claim of many pods", pod: newPod("pod", claimNamed("many")), others: []*corev1.Pod{on(newPod("other", claimNamed("many")))}, pre: framework.SkipCycle},
		{name: "in another namespace", pod: newPod("pod", claimNamed("first")), others: []*corev1.Pod{elsewhere}, pre: framework.SkipCycle},
	} {
		t.Run(test.name, func(t *testing.T) {
			claims := []*corev1.PersistentVolumeClaim{first, second, many}
			if test.name == "the claim does not exist" {
				claims = nil
			}
			p, cycle := newPlugin(t, claims...), newCycle(t, test.pod, test.others...)
			_, pre := p.PreFilter(cycle)
			if diff := cmp.Diff(test.pre, pre); diff != "" {
				t.Fatalf("PreFilter (-want +got):\n%s", diff)
			}
			if pre == nil {
				if diff := cmp.Diff(test.filter, p.Filter(cycle, cycle.Snapshot.Node("node-1"))); diff != "" {
					t.Errorf("Filter (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// If the other pod were not there, the pod would fit; a pod with a claim of the same name in another
// namespace has nothing to do with it.
func TestSupposition(t *testing.T) {
	pod, other := newPod("pod", claimNamed("first"), claimNamed("second")), on(newPod("other", claimNamed("first")))
	elsewhere := on(newPod("elsewhere", claimNamed("first")))
	elsewhere.Namespace = "another"
	p := newPlugin(t, newClaim("first", corev1.ReadWriteOncePod), newClaim("second", corev1.ReadWriteOncePod))
	cycle := newCycle(t, pod, other, elsewhere)
	if _, status := p.PreFilter(cycle); status != nil {
		t.Fatal(status)
	}
	node := cycle.Snapshot.Node("node-1")
	check := func(what string, cycle *framework.Cycle, want *framework.Status) {
		t.Helper()
		if diff := cmp.Diff(want, p.Filter(cycle, node)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	supposed := cycle.Clone()
	p.RemovePod(supposed, podInfo(t, elsewhere), node)
	check("without the pod of another namespace", supposed, inUse)
	p.RemovePod(supposed, podInfo(t, other), node)
	check("without the other pod", supposed, nil)
	check("the cycle itself", cycle, inUse)
	p.AddPod(supposed, podInfo(t, newPod("third", claimNamed("second"))), node)
	check("with a third pod", supposed, inUse)
	p.AddPod(newCycle(t, newPod("idle")), podInfo(t, other), node) // a pod with nothing to do
}

// Upstream: pkg/scheduler/framework/plugins/volumerestrictions Test_isSchedulableAfterPodDeleted,
// Test_isSchedulableAfterPersistentVolumeClaimChange (v1.36).
func TestEvents(t *testing.T) {
	pod, both := newPod("pod", claimNamed("a")), newPod("pod", claimNamed("a"), claimNamed("b"))
	elsewhere := newPod("pod", claimNamed("a"))
	elsewhere.Namespace = "another"
	for _, test := range []struct {
		name     string
		resource framework.EventResource
		action   framework.ActionType
		pod      *corev1.Pod
		old, new any
		want     bool
	}{
		{"a pod with the claim is deleted", framework.Pod, framework.Delete, pod, newPod("other", claimNamed("a")), nil, true},
		{"a pod with another claim", framework.Pod, framework.Delete, pod, newPod("other", claimNamed("b")), nil, false},
		{"a pod with a claim in another namespace", framework.Pod, framework.Delete, pod, elsewhere, nil, false},
		{"the claim is created", framework.PersistentVolumeClaim, framework.Add, both, nil, newClaim("a", corev1.ReadWriteMany), true},
		{"another claim", framework.PersistentVolumeClaim, framework.Add, pod, nil, newClaim("b", corev1.ReadWriteMany), false},
		{"a claim in another namespace", framework.PersistentVolumeClaim, framework.Add, elsewhere, nil, newClaim("a", corev1.ReadWriteMany), false},
		{"the claim is changed", framework.PersistentVolumeClaim, framework.UpdateOther, pod, newClaim("a", corev1.ReadWriteMany), newClaim("a", corev1.ReadWriteMany), false},
		{"a new node", framework.Node, framework.Add, pod, nil, &corev1.Node{}, true},
		{"a label of a node", framework.Node, framework.UpdateNodeLabel, pod, &corev1.Node{}, &corev1.Node{}, false},
	} {
		if got := hints(t, test.resource, test.action, test.pod, test.old, test.new); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// The plugin allocates nothing for a pod without disks and such claims.
func TestSkipAllocatesNothing(t *testing.T) {
	p := newPlugin(t, newClaim("many", corev1.ReadWriteMany))
	cycle := newCycle(t, newPod("pod", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}))
	if got := testing.AllocsPerRun(100, func() { _, _ = p.PreFilter(cycle) }); got != 0 {
		t.Errorf("%v allocations", got)
	}
}
