package scheduler

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// driverClaims are bound claims: d1 to d4 to volumes 1 to 4 of driver d, e1 and e2 to volumes 1 and
// 2 of driver e, twin to volume 1 of driver d under another name, dir to a directory. The other
// claims are unbound: wait and wait2 of driver d, lost with a missing volume, odd without a class.
func driverClaims() shelf {
	s := shelf{
		claims: map[string]*corev1.PersistentVolumeClaim{}, volumes: map[string]*corev1.PersistentVolume{},
		classes: map[string]*storagev1.StorageClass{"d": {Provisioner: "d"}},
	}
	volume := func(name, driver, handle string) {
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
		v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}
		s.volumes[name], s.claims[name] = v, claimOf(name, "none", boundTo(name))
	}
	for name, of := range map[string][2]string{
		"d1": {"d", "1"}, "d2": {"d", "2"}, "d3": {"d", "3"}, "d4": {"d", "4"}, "twin": {"d", "1"}, "e1": {"e", "1"},
		"e2": {"e", "2"},
	} {
		volume(name, of[0], of[1])
	}
	s.volumes["dir"], s.claims["dir"] = &corev1.PersistentVolume{}, claimOf("dir", "d", boundTo("dir"))
	s.claims["wait"], s.claims["wait2"] = claimOf("wait", "d"), claimOf("wait2", "d")
	s.claims["lost"], s.claims["odd"] = claimOf("lost", "d", boundTo("gone")), claimOf("odd", "none")
	return s
}

// limited returns a node with a limit for driver d; -1 is no limit.
func limited(n int32) *storagev1.CSINode {
	d := storagev1.CSINodeDriver{Name: "d"}
	if n >= 0 {
		d.Allocatable = &storagev1.VolumeNodeResources{Count: &n}
	}
	return &storagev1.CSINode{Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "e"}, d}}}
}

// ephemeralPod returns a pod with an ephemeral volume, whose claim belongs to the pod or to another
// one.
func ephemeralPod(s shelf, name string, own bool) *corev1.Pod {
	pod := podWith()
	pod.Name, pod.UID = name, "uid-of-pod"
	pod.Spec.Volumes = []corev1.Volume{{
		Name: "own", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}},
	}}
	claim := claimOf(name+"-own", "d")
	if own {
		yes := true
		claim.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: name, UID: pod.UID, Controller: &yes}}
	}
	s.claims[claim.Name] = claim
	return pod
}

// Each case has the volumes on a node with a limit, and those of a pod. Upstream's cases about
// volumes of CSI drivers are among them by behaviour; see UPSTREAM.md.
//
// Upstream: pkg/scheduler/framework/plugins/nodevolumelimits TestCSILimits (v1.36).
func TestExceedsLimit(t *testing.T) {
	one := func(claims ...string) []*corev1.Pod { return []*corev1.Pod{podWith(claims...)} }
	for _, test := range []struct {
		name     string
		brings   []string
		limit    int32
		pods     []*corev1.Pod
		attached []string // volumes
		want     bool
	}{
		{
			name: "attachments alone fill the node", brings: []string{"d1"}, limit: 2, attached: []string{"d2", "d3"},
			want: true,
		},
		{name: "attachments leave room", brings: []string{"d1"}, limit: 3, attached: []string{"d2", "d3"}},
		{name: "pods leave room", brings: []string{"d1"}, limit: 4, pods: one("d2", "d3", "e1")},
		{name: "pods fill the node", brings: []string{"d1"}, limit: 2, pods: one("d2", "d3"), want: true},
		{name: "the node has no limit", brings: []string{"d1"}, limit: -1, pods: one("d2", "d3")},
		{
			name: "an unbound claim counts", brings: []string{"d1"}, limit: 2,
			pods: append(one("d2"), one("wait")...), want: true,
		},
		{
			name: "an unbound claim of two pods counts once", brings: []string{"d1"}, limit: 3,
			pods: append(one("d2", "wait"), one("wait")...),
		},
		{
			name: "two unbound claims count twice", brings: []string{"d1"}, limit: 3,
			pods: append(one("d2", "wait"), one("wait2")...), want: true,
		},
		{
			name: "a claim with a deleted volume counts by its class", brings: []string{"d1"}, limit: 2,
			pods: one("d2", "lost"), want: true,
		},
		{name: "a claim without a class does not count", brings: []string{"d1"}, limit: 2, pods: one("d2", "odd")},
		{name: "a deleted claim does not count", brings: []string{"d1"}, limit: 2, pods: one("d2", "none")},
		{name: "volumes of another driver do not count", brings: []string{"d1"}, limit: 2, pods: one("d2", "e1", "e2")},
		{
			name: "volumes of several drivers, one of them full", brings: []string{"d1"}, limit: 2,
			pods: one("d2", "d3", "e1"), want: true,
		},
		{name: "a pod with volumes of another driver", brings: []string{"e1", "e2"}, limit: 2, pods: one("d2", "d3")},
		{name: "a directory does not count", brings: []string{"d1"}, limit: 2, pods: one("d2", "dir")},
		{name: "a pod with a directory", brings: []string{"dir"}, limit: 1, pods: one("d2")},
		{name: "a pod with nothing", limit: 0, pods: one("d2")},
		{name: "a pod with unbound claims", brings: []string{"wait", "wait2"}, limit: 2, pods: one("d2"), want: true},
		{name: "a pod that exceeds the limit alone", brings: []string{"d1", "d2", "d3"}, limit: 2, want: true},
		{name: "a pod that reaches the limit", brings: []string{"d1", "d2"}, limit: 2},
		{name: "a volume in use on the node", brings: []string{"d1"}, limit: 2, pods: one("d1", "d2")},
		{
			name: "one in use on the node, and one that is not", brings: []string{"d1", "d3"}, limit: 2,
			pods: one("d1", "d2"), want: true,
		},
		{name: "the same handle under another name", brings: []string{"twin"}, limit: 1, pods: one("d1")},
		{name: "the same handle of another driver", brings: []string{"d1"}, limit: 1, pods: one("e1")},
		{
			name: "an attached volume that a pod uses counts once", brings: []string{"d1"}, limit: 3,
			pods: one("d2", "d3"), attached: []string{"d2", "d3"},
		},
		{
			name: "an attached volume that no pod uses any more", brings: []string{"d1"}, limit: 1,
			attached: []string{"d1"},
		},
		{
			name: "a volume to attach to a full node", brings: []string{"d1"}, limit: 1,
			pods: one("d2"), attached: []string{"d1", "d2"}, want: true,
		},
		{
			name: "an attachment of a deleted volume does not count", brings: []string{"d1"}, limit: 1,
			attached: []string{"none"},
		},
		{name: "the node is beyond its limit", brings: []string{"d1"}, limit: 1, pods: one("d1", "d2")},
		{name: "the limit is zero", brings: []string{"d1"}, limit: 0, want: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := driverClaims()
			s.node, s.pods = limited(test.limit), test.pods
			for _, name := range test.attached {
				a := &storagev1.VolumeAttachment{Spec: storagev1.VolumeAttachmentSpec{NodeName: "n", Attacher: "d"}}
				a.Spec.Source.PersistentVolumeName = &name
				s.attachments = append(s.attachments, a)
			}
			if got := exceedsLimit(podWith(test.brings...), node("n", ""), s); got != test.want {
				t.Errorf("it exceeds the limit: %v, want %v", got, test.want)
			}
		})
	}
}

func TestEphemeralVolumesCount(t *testing.T) {
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
		s := driverClaims()
		s.node = limited(test.limit)
		s.pods = []*corev1.Pod{ephemeralPod(s, "other", test.own)}
		if got := exceedsLimit(podWith("d1"), node("n", ""), s); got != test.want {
			t.Errorf("%s, on the node: it exceeds the limit: %v, want %v", test.name, got, test.want)
		}
		s.pods = []*corev1.Pod{podWith("d1")}
		if got := exceedsLimit(ephemeralPod(s, "pod", test.own), node("n", ""), s); got != test.want {
			t.Errorf("%s, of the pod: it exceeds the limit: %v, want %v", test.name, got, test.want)
		}
	}
}

func TestNodeWithoutACSINodeHasNoLimits(t *testing.T) {
	if exceedsLimit(podWith("d1"), node("n", ""), driverClaims()) {
		t.Error("it exceeds the limit")
	}
}

func TestUnfitNamesTheLimit(t *testing.T) {
	s := driverClaims()
	s.node = limited(0)
	pod := podWith("d1")
	claims, err := claimsOf(pod, s)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"node(s) exceed max volume count"}
	if diff := cmp.Diff(want, unfit(pod, node("n", ""), claims, s)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Upstream: pkg/scheduler/framework/plugins/nodevolumelimits TestCSILimitsAfterCSINodeUpdatedQHint
// (v1.36).
func TestLimitRaised(t *testing.T) {
	for _, test := range []struct {
		name    string
		was, is *storagev1.CSINode
		want    bool
	}{
		{"raised", limited(1), limited(2), true},
		{"lowered", limited(2), limited(1), false},
		{"the same", limited(2), limited(2), false},
		{"no more", limited(2), limited(-1), true},
		{"new", limited(-1), limited(2), false},
		{"a new node", nil, limited(2), true},
	} {
		if got := isLimitRaised(test.was, test.is); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// Volumes of migrated plugins count as those of their CSI drivers.
func TestMigratedVolumesCount(t *testing.T) {
	source := func(id string) *corev1.AWSElasticBlockStoreVolumeSource {
		return &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: id}
	}
	stock := func() shelf {
		s := driverClaims()
		in := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "in"}}
		in.Spec.AWSElasticBlockStore = source("vol-1")
		csi := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "csi"}}
		csi.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: "vol-2"}
		s.volumes["in"], s.volumes["csi"] = in, csi
		s.classes["in"] = &storagev1.StorageClass{Provisioner: "kubernetes.io/aws-ebs"}
		s.claims["in"], s.claims["csi"] = claimOf("in", "none", boundTo("in")), claimOf("csi", "none", boundTo("csi"))
		s.claims["in-wait"] = claimOf("in-wait", "in")
		return s
	}
	written := func(id string) *corev1.Pod {
		pod := podWith()
		pod.Spec.Volumes = []corev1.Volume{{
			Name: "v", VolumeSource: corev1.VolumeSource{AWSElasticBlockStore: source(id)},
		}}
		return pod
	}
	for _, test := range []struct {
		name  string
		pod   *corev1.Pod
		there *corev1.Pod
		limit int32
		want  bool
	}{
		{"a bound one, and one of CSI", podWith("in"), podWith("csi"), 1, true},
		{"one of CSI, and a bound one", podWith("csi"), podWith("in"), 1, true},
		{"there is room", podWith("in"), podWith("csi"), 2, false},
		{"the node has no limit", podWith("in"), podWith("csi"), -1, false},
		{"an unbound one", podWith("in-wait"), podWith("csi"), 1, true},
		{"inline in the pod", written("vol-3"), podWith("csi", "in"), 2, true},
		{"inline in another pod", podWith("csi"), written("vol-3"), 1, true},
		{"inline, and in use on the node", written("vol-2"), podWith("csi"), 1, false},
		{"a volume that is not migrated", podWith("dir"), podWith("csi"), 1, false},
	} {
		s := stock()
		s.node, s.pods = limited(test.limit), []*corev1.Pod{test.there}
		s.node.Spec.Drivers[1].Name = "ebs.csi.aws.com"
		if got := exceedsLimit(test.pod, node("n", ""), s); got != test.want {
			t.Errorf("%s: it exceeds the limit: %v, want %v", test.name, got, test.want)
		}
	}
}
