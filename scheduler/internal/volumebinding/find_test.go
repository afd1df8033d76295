package volumebinding

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
)

const (
	noVolume      = "node(s) didn't find available persistent volumes to bind"
	otherNode     = "node(s) didn't match PersistentVolume's node affinity"
	noSpace       = "node(s) did not have enough free storage"
	volumeIsGone  = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
	unboundClaims = "pod has unbound immediate PersistentVolumeClaims"
)

// ownedBy has a claim belong to a pod.
func ownedBy(pod *corev1.Pod) claimChange {
	return func(c *corev1.PersistentVolumeClaim) {
		c.OwnerReferences = []metav1.OwnerReference{{Name: pod.Name, UID: pod.UID, Controller: ptr.To(true)}}
	}
}

// A findRow is a row of upstream's tables of FindPodVolumes.
type findRow struct {
	pod     *corev1.Pod // nil: with all claims
	claims  []*corev1.PersistentVolumeClaim
	missing bool // the claims do not exist
	volumes []*corev1.PersistentVolume
	want    result
}

var (
	small       = claim("small", "1G", waits)
	large       = claim("large", "5G", waits)
	boundClaimA = claim("bound", "1G", waits, boundTo("v-bound"))
	toProvide   = claim("provided", "1Gi", provided)
	notBound    = claim("immediate", "1G", immediate)
	boundAtOnce = claim("immediate-bound", "1G", immediate, boundTo("v-immediate"))

	on1   = volume("v1a", "n1", "5G", waits)
	on1b  = volume("v1b", "n1", "10G", waits)
	on2   = volume("v2", "n2", "1G", waits)
	taken = volume("v-bound", "n1", "1G", waits, of(boundClaimA))
)

type (
	claimList  = []*corev1.PersistentVolumeClaim
	volumeList = []*corev1.PersistentVolume
)

var withoutProvisioning = map[string]findRow{
	"no-volumes": {pod: pod("p")},
	"no-pvcs": {pod: &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{
		VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
	}}}}},
	"pvc-not-found": {
		claims: claimList{boundClaimA}, missing: true, want: result{Err: `persistentvolumeclaim "bound" not found`},
	},
	"bound-pvc":               {claims: claimList{boundClaimA}, volumes: volumeList{taken}},
	"bound-pvc,pv-not-exists": {claims: claimList{boundClaimA}, want: result{Reasons: []string{volumeIsGone}}},
	"prebound-pvc": {
		claims: claimList{claim("prebound", "1G", waits, named("v1a"))}, volumes: volumeList{volume("v1a", "n1", "5G", waits, of(small))},
		want: result{Err: unboundClaims},
	},
	"unbound-pvc,pv-same-node": {
		claims: claimList{small}, volumes: volumeList{on2, on1, on1b}, want: result{Volumes: map[string]string{"small": "v1a"}},
	},
	"unbound-pvc,pv-different-node": {
		claims: claimList{small}, volumes: volumeList{on2}, want: result{Reasons: []string{noVolume}},
	},
	"two-unbound-pvcs": {
		claims: claimList{small, large}, volumes: volumeList{on1, on1b},
		want: result{Volumes: map[string]string{"small": "v1a", "large": "v1b"}},
	},
	"two-unbound-pvcs,order-by-size": {
		claims: claimList{large, small}, volumes: volumeList{on1, on1b},
		want: result{Volumes: map[string]string{"small": "v1a", "large": "v1b"}},
	},
	"two-unbound-pvcs,partial-match": {
		claims: claimList{small, large}, volumes: volumeList{on1}, want: result{Reasons: []string{noVolume}},
	},
	"one-bound,one-unbound": {
		claims: claimList{small, boundClaimA}, volumes: volumeList{taken, on1}, want: result{Volumes: map[string]string{"small": "v1a"}},
	},
	"one-bound,one-unbound,no-match": {
		claims: claimList{small, boundClaimA}, volumes: volumeList{taken, on2}, want: result{Reasons: []string{noVolume}},
	},
	"one-prebound,one-unbound": {
		claims: claimList{small, claim("prebound", "1G", waits, named("v1a"))}, volumes: volumeList{on1, on1b},
		want: result{Err: unboundClaims},
	},
	"immediate-bound-pvc": {
		claims: claimList{boundAtOnce}, volumes: volumeList{volume("v-immediate", "n1", "1G", immediate, of(boundAtOnce))},
	},
	"immediate-bound-pvc-wrong-node": {
		claims: claimList{boundAtOnce}, volumes: volumeList{volume("v-immediate", "n2", "1G", immediate, of(boundAtOnce))},
		want: result{Reasons: []string{otherNode}},
	},
	"immediate-unbound-pvc":                    {claims: claimList{notBound}, want: result{Err: unboundClaims}},
	"immediate-unbound-pvc,delayed-mode-bound": {claims: claimList{notBound, boundClaimA}, volumes: volumeList{taken}, want: result{Err: unboundClaims}},
	"immediate-unbound-pvc,delayed-mode-unbound": {
		claims: claimList{notBound, small}, want: result{Err: unboundClaims},
	},
	"generic-ephemeral,no-pvc": {
		pod:  withEphemeral(pod("p"), "none"),
		want: result{Err: `waiting for ephemeral volume controller to create the persistentvolumeclaim "p-none"`},
	},
	"generic-ephemeral,with-pvc": {
		pod:     withEphemeral(pod("p"), "scratch"),
		claims:  claimList{claim("p-scratch", "1G", immediate, boundTo("v-bound"), ownedBy(pod("p")))},
		volumes: volumeList{taken},
	},
	"generic-ephemeral,wrong-pvc": {
		pod:    withEphemeral(pod("p"), "scratch"),
		claims: claimList{claim("p-scratch", "1G", immediate, boundTo("v-bound"))}, volumes: volumeList{taken},
		want: result{Err: "PVC ns/p-scratch was not created for pod ns/p (pod is not owner)"},
	},
	// not in upstream's table
	"lost": {
		claims: claimList{claim("lost", "1G", waits, boundTo("v"), func(c *corev1.PersistentVolumeClaim) {
			c.Status.Phase = corev1.ClaimLost
		})},
		want: result{Err: `persistentvolumeclaim "lost" bound to non-existent persistentvolume "v"`},
	},
	"being deleted, after one that is not bound": {
		claims: claimList{notBound, claim("deleted", "1G", waits, func(c *corev1.PersistentVolumeClaim) {
			c.DeletionTimestamp = ptr.To(metav1.Now())
		})},
		want: result{Err: `persistentvolumeclaim "deleted" is being deleted`},
	},
	"without a class":  {claims: claimList{claim("c", "1G", "")}, want: result{Err: unboundClaims}},
	"of unknown class": {claims: claimList{claim("c", "1G", "unknown")}, want: result{Err: unboundClaims}},
	"bound to a volume of another node, and unbound": {
		claims: claimList{claim("far", "1G", waits, boundTo("v2")), small}, volumes: volumeList{on2},
		want: result{Reasons: []string{otherNode, noVolume}},
	},
	"bound to a volume that is gone, and unbound": {
		claims: claimList{claim("far", "1G", waits, boundTo("gone")), small},
		want:   result{Reasons: []string{noVolume, volumeIsGone}},
	},
	"the smallest that fits": {
		claims: claimList{claim("c", "2G", waits)}, volumes: volumeList{
			volume("big", "n1", "5G", waits), volume("fits", "n1", "3G", waits), volume("small", "n1", "1G", waits),
		},
		want: result{Volumes: map[string]string{"c": "fits"}},
	},
	"the first by name, wherever it is": {
		claims:  claimList{claim("c", "1G", waits)},
		volumes: volumeList{volume("b", "", "1G", waits), volume("a", "n1", "1G", waits), volume("c", "", "1G", waits, labelled("zone", "z"))},
		want:    result{Volumes: map[string]string{"c": "a"}},
	},
	"claims of one size, in the pod's order": {
		claims: claimList{claim("b", "1G", waits), claim("a", "1G", waits)}, volumes: volumeList{
			volume("v", "n1", "1G", waits), volume("w", "n1", "1G", waits),
		},
		want: result{Volumes: map[string]string{"b": "v", "a": "w"}},
	},
	"reserved for the claim": {
		claims: claimList{small}, volumes: volumeList{on1, volume("mine", "n1", "9G", waits, of(small), func(v *corev1.PersistentVolume) {
			v.Spec.ClaimRef.UID, v.Status.Phase = "", corev1.VolumePending
		})},
		want: result{Volumes: map[string]string{"small": "mine"}},
	},
	"reserved for the claim, on another node": {
		claims: claimList{small}, volumes: volumeList{on1, volume("mine", "n2", "9G", waits, of(small))},
		want: result{Reasons: []string{noVolume}},
	},
	"of another claim, not available, of another mode, access mode, class or label": {
		claims: claimList{claim("c", "1G", waits, func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"wanted": "yes"}}
		})},
		volumes: volumeList{
			volume("unlabelled", "n1", "1G", waits),
			volume("released", "n1", "1G", waits, wanted, func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeReleased }),
			volume("block", "n1", "1G", waits, wanted, func(v *corev1.PersistentVolume) { v.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) }),
			volume("read-only", "n1", "1G", waits, wanted, func(v *corev1.PersistentVolume) {
				v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany}
			}),
			volume("of-another", "n1", "1G", waits, wanted, of(large)),
			volume("other-class", "n1", "1G", immediate, wanted),
		},
		want: result{Reasons: []string{noVolume}},
	},
}

func wanted(v *corev1.PersistentVolume) { v.Labels = map[string]string{"wanted": "yes"} }

var withProvisioning = map[string]findRow{
	"one-provisioned": {claims: claimList{toProvide}, want: result{Volumes: map[string]string{"provided": ""}}},
	"two-unbound-pvcs,one-matched,one-provisioned": {
		claims: claimList{small, toProvide}, volumes: volumeList{on1},
		want: result{Volumes: map[string]string{"small": "v1a", "provided": ""}},
	},
	"one-bound,one-provisioned": {
		claims: claimList{boundClaimA, toProvide}, volumes: volumeList{taken}, want: result{Volumes: map[string]string{"provided": ""}},
	},
	"one-binding,one-selected-node": {
		claims: claimList{boundClaimA, claim("selected", "1Gi", provided, forNode("n1"))}, volumes: volumeList{taken},
		want: result{Volumes: map[string]string{"selected": ""}},
	},
	"immediate-unbound-pvc": {claims: claimList{notBound}, want: result{Err: unboundClaims}},
	"one-immediate-bound,one-provisioned": {
		claims:  claimList{boundAtOnce, toProvide},
		volumes: volumeList{volume("v-immediate", "n1", "1G", immediate, of(boundAtOnce))},
		want:    result{Volumes: map[string]string{"provided": ""}},
	},
	"invalid-provisioner": {claims: claimList{claim("c", "1Gi", waits)}, want: result{Reasons: []string{noVolume}}},
	"volume-topology-unsatisfied": {
		claims: claimList{claim("c", "1Gi", elsewhere)}, want: result{Reasons: []string{noVolume}},
	},
	// not in upstream's table
	"selected for another node": {
		claims: claimList{claim("selected", "1Gi", provided, forNode("n3"))}, want: result{Reasons: []string{noVolume}},
	},
	"selected for this node, beside a volume that fits": {
		claims: claimList{claim("selected", "1Gi", provided, forNode("n1"))}, volumes: volumeList{volume("v", "n1", "2Gi", provided)},
		want: result{Volumes: map[string]string{"selected": ""}},
	},
	"a volume that fits, beside one that would be provisioned": {
		claims: claimList{toProvide}, volumes: volumeList{volume("v", "n1", "2Gi", provided)},
		want: result{Volumes: map[string]string{"provided": "v"}},
	},
}

func (row *findRow) run(t *testing.T, driver *storagev1.CSIDriver) {
	w := newRig(t, Args{})
	w.cached(classes()...)
	if driver != nil {
		w.cached(driver)
	}
	for _, v := range row.volumes {
		w.cached(v)
	}
	asked := row.pod
	if asked == nil {
		asked = pod("p")
	}
	for _, c := range row.claims {
		if !row.missing {
			w.cached(c)
		}
		if row.pod == nil {
			asked.Spec.Volumes = append(asked.Spec.Volumes, pod("", c.Name).Spec.Volumes...)
		}
	}
	want := row.want
	if driver != nil && publishes(driver) {
		for _, volume := range want.Volumes {
			if volume == "" { // nothing is published
				want = result{Reasons: []string{noSpace}}
			}
		}
	}
	got, _ := w.find(asked, node("n1"))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func testFind(t *testing.T, rows map[string]findRow) {
	t.Helper()
	for name, driver := range map[string]*storagev1.CSIDriver{
		"no CSIDriver": nil, "CSIDriver with capacity tracking": driver(true), "CSIDriver without capacity tracking": driver(false),
	} {
		t.Run(name, func(t *testing.T) {
			for name, row := range rows {
				t.Run(name, func(t *testing.T) { row.run(t, driver) })
			}
		})
	}
}

func TestFindPodVolumesWithoutProvisioning(t *testing.T) { testFind(t, withoutProvisioning) }

func TestFindPodVolumesWithProvisioning(t *testing.T) { testFind(t, withProvisioning) }

func TestFindPodVolumesWithCSIMigration(t *testing.T) {
	zone1, zone2 := node("n1", zoneLabel, "east-1"), node("n1", zoneLabel, "east-2")
	for name, test := range map[string]struct {
		node    *corev1.Node
		csiNode *storagev1.CSINode
		reasons []string
	}{
		"pvc-bound":                      {zone1, csiNode("n1", "kubernetes.io/gce-pd"), nil},
		"pvc-bound,csinode-not-migrated": {zone1, csiNode("n1", ""), nil},
		"pvc-bound,missing-csinode":      {zone1, nil, nil},
		"pvc-bound,node-different-zone":  {zone2, csiNode("n1", "kubernetes.io/aws-ebs,kubernetes.io/gce-pd"), []string{otherNode}},
		// not in upstream's table
		"not migrated, node-different-zone": {zone2, csiNode("n1", "kubernetes.io/aws-ebs"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newRig(t, Args{})
			w.cached(classes()...)
			if test.csiNode != nil {
				w.cached(test.csiNode)
			}
			bound := claim("bound", "1G", waits, boundTo("v"))
			w.cached(bound, volume("v", "", "1G", waits, of(bound), migratable))
			got, _ := w.find(pod("p", "bound"), test.node)
			if diff := cmp.Diff(result{Reasons: test.reasons}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestMatchesTopology(t *testing.T) {
	term := func(key string, values ...string) corev1.TopologySelectorTerm {
		return corev1.TopologySelectorTerm{
			MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: key, Values: values}},
		}
	}
	labels := map[string]string{"zone": "b"}
	for name, test := range map[string]struct {
		terms []corev1.TopologySelectorTerm
		want  bool
	}{
		"no terms":      {nil, true},
		"empty term":    {[]corev1.TopologySelectorTerm{{}}, false},
		"one of values": {[]corev1.TopologySelectorTerm{term("zone", "a", "b")}, true},
		"another value": {[]corev1.TopologySelectorTerm{term("zone", "a")}, false},
		"another key":   {[]corev1.TopologySelectorTerm{term("rack", "b")}, false},
		"either term":   {[]corev1.TopologySelectorTerm{term("rack", "b"), term("zone", "b")}, true},
	} {
		if got := matchesTopology(test.terms, labels); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The volume that a claim gets on a node is the one that upstream's function returns.
func TestCandidates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		claim := claim("c", rapid.SampledFrom([]string{"1G", "2G"}).Draw(t, "size"), waits)
		drawn := rapid.IntRange(0, 7).Draw(t, "volumes")
		var volumes volumeList
		taken := map[string]*corev1.PersistentVolume{}
		for i := range drawn {
			v := drawVolume(t, string(rune('a'+i)), claim)
			volumes = append(volumes, v)
			if rapid.IntRange(0, 4).Draw(t, "taken") == 0 {
				taken[v.Name] = v
			}
		}
		c, err := newCandidates(claim, volumes)
		if err != nil {
			t.Fatal(err)
		}
		for _, node := range []*corev1.Node{
			node("n1"), node("n2", "zone", "z1"), node("n3", "zone", "z2", "rack", "r"), {},
		} {
			want, err := storagehelpers.FindMatchingVolume(claim, volumes, node, taken, true, true)
			if got := c.on(node, taken); got != want || err != nil {
				t.Fatalf("node %v gets %v, want %v (%v)", node.Labels, got, want, err)
			}
		}
	})
}

// drawVolume returns a volume; one in six does not fit the claim, wherever it is.
func drawVolume(t *rapid.T, name string, claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	change := []volumeChange{
		func(v *corev1.PersistentVolume) { v.Spec.NodeAffinity = nil },
		labelled("zone", "z1"), labelled("zone", "z2"), labelled("zone", "z2", "rack", "r"), labelled("rack", "r"),
		labelled(corev1.LabelHostname, "n2"),
		func(v *corev1.PersistentVolume) {
			requirement := onlyRequirement(v)
			requirement.Values = append(requirement.Values, "n2")
		},
		func(v *corev1.PersistentVolume) { onlyRequirement(v).Operator = corev1.NodeSelectorOpNotIn },
	}
	v := volume(name, "n1", rapid.SampledFrom([]string{"1G", "2G", "3G"}).Draw(t, "capacity"), waits,
		rapid.SampledFrom(change).Draw(t, "affinity"))
	switch rapid.IntRange(0, 11).Draw(t, "state") {
	case 0:
		v.Status.Phase = corev1.VolumeReleased
	case 1:
		v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany}
	case 2:
		of(claim)(v)
	case 3:
		of(large)(v)
	}
	return v
}
