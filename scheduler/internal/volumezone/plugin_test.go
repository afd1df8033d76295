package volumezone

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

const (
	betaZone, betaRegion = corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion
	zone, region         = corev1.LabelTopologyZone, corev1.LabelTopologyRegion
)

type labels = map[string]string

// newPlugin returns the plugin with a claim that is bound to each volume, and unbound claims: nothing,
// without a class; gone, of a class that does not exist; late, of a class that waits for the first
// consumer; early, of one that does not; odd, of one without a mode. lost is bound to a volume that
// does not exist.
func newPlugin(t testing.TB) *Plugin {
	t.Helper()
	factory := informers.NewSharedInformerFactory(nil, 0)
	p := New(framework.Handle{Informers: factory})
	claims := factory.Core().V1().PersistentVolumeClaims().Informer().GetIndexer()
	volumes := factory.Core().V1().PersistentVolumes().Informer().GetIndexer()
	classes := factory.Storage().V1().StorageClasses().Informer().GetIndexer()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, of := range map[string]labels{
		"beta zone": {betaZone: "a"}, "beta region": {betaRegion: "r", "other": "none"},
		"zone": {zone: "a"}, "region": {region: "r", "other": "none"}, "both": {zone: "a", region: "a"},
		"beta zones": {betaZone: "c__a"}, "zones": {zone: "c__a"}, "no zone": {zone: "a__"}, "none": nil,
	} {
		must(volumes.Add(volume(name, of)))
		must(claims.Add(claim(name, name, nil)))
	}
	must(claims.Add(claim("lost", "missing", nil)))
	must(claims.Add(claim("nothing", "", nil)))
	for _, name := range []string{"gone", "late", "early", "odd"} {
		must(claims.Add(claim(name, "", &name)))
	}
	for name, mode := range map[string]*storagev1.VolumeBindingMode{
		"late": ptr.To(storagev1.VolumeBindingWaitForFirstConsumer), "early": ptr.To(storagev1.VolumeBindingImmediate), "odd": nil,
	} {
		must(classes.Add(class(name, mode)))
	}
	return p
}

func volume(name string, of labels) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: of}}
}

func claim(name, volume string, class *string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: volume, StorageClassName: class},
	}
}

func class(name string, mode *storagev1.VolumeBindingMode) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, VolumeBindingMode: mode}
}

func newPod(claims ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod"}}
	for _, name := range claims {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}})
	}
	return pod
}

func newCycle(t testing.TB, pod *corev1.Pod) *framework.Cycle {
	t.Helper()
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		t.Fatal(err)
	}
	return framework.NewCycle(info, nil)
}

func newNode(of labels) *framework.NodeInfo {
	return &framework.NodeInfo{Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: of}}}
}

// Upstream: pkg/scheduler/framework/plugins/volumezone TestSingleZone, TestMultiZone, TestWithBinding
// (v1.36).
func TestFilter(t *testing.T) {
	conflict := framework.NewStatus(framework.UnschedulableAndUnresolvable, "node(s) had no available volume zone")
	p := newPlugin(t)
	for _, test := range []struct {
		name  string
		claim string
		node  labels
		want  *framework.Status
	}{
		{"a node without labels", "beta zone", nil, nil},
		{"the beta zone", "beta zone", labels{betaZone: "a", "other": "none"}, nil},
		{"the beta region", "beta region", labels{betaRegion: "r", "other": "none"}, nil},
		{"another beta region", "beta region", labels{betaRegion: "s", "other": "none"}, conflict},
		{"another beta zone", "beta zone", labels{betaZone: "b", "other": "none"}, conflict},
		{"the zone", "zone", labels{zone: "a", "other": "none"}, nil},
		{"the region", "region", labels{region: "r", "other": "none"}, nil},
		{"another region", "region", labels{region: "s", "other": "none"}, conflict},
		{"another zone", "zone", labels{zone: "b", "other": "none"}, conflict},
		{"a node without the region of the volume", "both", labels{zone: "a"}, conflict},
		{"a node with the beta label of the zone", "zone", labels{betaZone: "a"}, conflict},
		{"a volume with the beta label of the zone", "beta zone", labels{zone: "a"}, nil},
		{"a volume with the beta label of another zone", "beta zone", labels{zone: "b"}, conflict},
		{"several zones, a node without labels", "beta zones", nil, nil},
		{"several beta zones", "beta zones", labels{betaZone: "a", "other": "none"}, nil},
		{"several zones", "zones", labels{zone: "a", "other": "none"}, nil},
		{"none of several zones", "zones", labels{zone: "b"}, conflict},
	} {
		t.Run(test.name, func(t *testing.T) {
			cycle := newCycle(t, newPod(test.claim))
			if nodes, status := p.PreFilter(cycle); nodes != nil || status != nil {
				t.Fatalf("PreFilter answers %v, %v", nodes, status)
			}
			if diff := cmp.Diff(test.want, p.Filter(cycle, newNode(test.node))); diff != "" {
				t.Errorf("Filter (-want +got):\n%s", diff)
			}
		})
	}
}

// Upstream: pkg/scheduler/framework/plugins/volumezone TestSingleZone, TestWithBinding (v1.36).
func TestPreFilter(t *testing.T) {
	rejected := func(reason string) *framework.Status {
		return framework.NewStatus(framework.UnschedulableAndUnresolvable, reason)
	}
	p := newPlugin(t)
	for _, test := range []struct {
		name   string
		claims []string
		want   *framework.Status
	}{
		{"no volumes", nil, framework.SkipCycle},
		{"a bound claim", []string{"beta zone"}, nil},
		{"a volume without labels", []string{"none"}, framework.SkipCycle},
		{"a label that cannot be parsed", []string{"no zone"}, framework.SkipCycle},
		{"no class", []string{"nothing"}, rejected("PersistentVolumeClaim had no pv name and storageClass name")},
		{"a missing class", []string{"gone"}, rejected(`storageclass.storage.k8s.io "gone" not found`)},
		{"a class without a mode", []string{"odd"}, rejected(`VolumeBindingMode not set for StorageClass "odd"`)},
		{"an immediate class", []string{"early"}, rejected("PersistentVolume had no name")},
		{"a class that waits", []string{"late"}, framework.SkipCycle},
		{"a missing claim", []string{"zone", "missing"}, rejected(`persistentvolumeclaim "missing" not found`)},
		{"a missing volume", []string{"lost"}, rejected(`persistentvolume "missing" not found`)},
		{"no name", []string{""}, rejected("PersistentVolumeClaim had no name")},
	} {
		_, got := p.PreFilter(newCycle(t, newPod(test.claims...)))
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// Upstream: pkg/scheduler/framework/plugins/volumezone TestIsSchedulableAfterPersistentVolumeClaimAdded,
// TestIsSchedulableAfterStorageClassAdded, TestIsSchedulableAfterPersistentVolumeChange (v1.36).
func TestEvents(t *testing.T) {
	elsewhere := claim("a", "v", nil)
	elsewhere.Namespace = "other"
	unbound, bound := claim("a", "", nil), claim("a", "v", nil)
	for _, test := range []struct {
		name     string
		resource framework.EventResource
		action   framework.ActionType
		pod      *corev1.Pod
		old, new any
		want     bool
	}{
		{"a claim, and a pod without one", framework.PersistentVolumeClaim, framework.Add, newPod(), nil, bound, false},
		{"another claim", framework.PersistentVolumeClaim, framework.Add, newPod("b"), nil, bound, false},
		{"a claim of another namespace", framework.PersistentVolumeClaim, framework.Add, newPod("a"), nil, elsewhere, false},
		{"the claim", framework.PersistentVolumeClaim, framework.Add, newPod("a"), nil, bound, true},
		{"the claim is bound", framework.PersistentVolumeClaim, framework.UpdateOther, newPod("a"), unbound, bound, true},
		{"a claim is bound, and a pod without one", framework.PersistentVolumeClaim, framework.UpdateOther, newPod(), unbound, bound, false},
		{"a class without a mode", framework.StorageClass, framework.Add, newPod("a"), nil, class("c", nil), false},
		{
			"a class that waits", framework.StorageClass, framework.Add, newPod("a"), nil,
			class("c", ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)), true,
		},
		{
			"an immediate class", framework.StorageClass, framework.Add, newPod("a"), nil,
			class("c", ptr.To(storagev1.VolumeBindingImmediate)), false,
		},
		{"a new volume", framework.PersistentVolume, framework.Add, newPod("a"), nil, volume("v", labels{betaZone: "b"}), true},
		{
			"another zone of a volume", framework.PersistentVolume, framework.UpdateOther, newPod("a"),
			volume("v", labels{betaZone: "a"}), volume("v", labels{betaZone: "b"}), true,
		},
		{
			"one more label of a volume", framework.PersistentVolume, framework.UpdateOther, newPod("a"),
			volume("v", labels{betaZone: "a"}), volume("v", labels{betaZone: "a", zone: "z"}), true,
		},
		{
			"the same labels", framework.PersistentVolume, framework.UpdateOther, newPod("a"),
			volume("v", labels{betaZone: "a", zone: "z"}), volume("v", labels{betaZone: "a", zone: "z"}), false,
		},
		{
			"a label that does not matter", framework.PersistentVolume, framework.UpdateOther, newPod("a"),
			volume("v", labels{zone: "z"}), volume("v", labels{zone: "z", "other": "x"}), false,
		},
		{"a new node", framework.Node, framework.Add, newPod("a"), nil, &corev1.Node{}, true},
		{"a taint of a node", framework.Node, framework.UpdateNodeTaint, newPod("a"), &corev1.Node{}, &corev1.Node{}, false},
		{"a label of a node", framework.Node, framework.UpdateNodeLabel, newPod("a"), &corev1.Node{}, &corev1.Node{}, true},
	} {
		event := &framework.Event{Resource: test.resource, Action: test.action, Old: test.old, New: test.new}
		got := false
		for _, hint := range newPlugin(t).Events() {
			got = got || hint.Matches(event, test.pod)
		}
		if got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// The plugin allocates nothing for a pod whose volumes have no labels.
func TestSkipAllocatesNothing(t *testing.T) {
	p, cycle := newPlugin(t), newCycle(t, newPod())
	if got := testing.AllocsPerRun(100, func() { _, _ = p.PreFilter(cycle) }); got != 0 {
		t.Errorf("%v allocations", got)
	}
}
