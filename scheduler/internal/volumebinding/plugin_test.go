package volumebinding

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

// A pluginRow is a row of upstream's TestVolumeBinding.
type pluginRow struct {
	claims    claimList
	missing   string // a claim of the pod that does not exist
	volumes   volumeList
	published []metav1.Object
	nodes     []*corev1.Node
	scored    bool // StorageCapacityScoring
	shape     []configv1.UtilizationShapePoint

	preFilter string     // the message of PreFilter if it rejects the pod
	filter    [][]string // the reasons by node; nil: none of any node
	scores    []int64
}

var (
	fullFirst = shape(0, 0, 100, 10) // upstream's default in this test
	freeFirst = shape(0, 10, 100, 0)

	threeNodes = []*corev1.Node{node("n1"), node("n2"), node("n3")}
	sixNodes   = []*corev1.Node{
		node("a1", "zone", "a"), node("a2", "zone", "a"), node("b1", "zone", "b"), node("b2", "zone", "b"),
		node("c1", "zone", "c"), node("c2", "zone", "c"),
	}
	localVolumes = volumeList{
		volume("a0", "n1", "200Gi", waits), volume("a1", "n1", "200Gi", waits),
		volume("b0", "n2", "100Gi", waits), volume("b1", "n2", "100Gi", waits),
	}
	zonalVolumes = volumeList{
		volume("a0", "", "200Gi", waits, labelled("zone", "a")), volume("a1", "", "200Gi", waits, labelled("zone", "a")),
		volume("b0", "", "100Gi", waits, labelled("zone", "b")), volume("b1", "", "100Gi", waits, labelled("zone", "b")),
	}
)

// publishedFree returns what is published of a class for nodes n1, n2 and so on.
func publishedFree(free ...string) []metav1.Object {
	var all []metav1.Object
	for i, size := range free {
		name := threeNodes[i].Name
		all = append(all, capacity("c-"+name, everywhere, name, size, ""))
	}
	return all
}

const (
	everywhere = "everywhere" // a class that waits; provisioned on all nodes
	hdd        = "hdd"        // a class that waits; without a provisioner
)

func TestVolumeBinding(t *testing.T) {
	for name, row := range map[string]pluginRow{
		"pod has not pvcs":          {},
		"all bound":                 {claims: claimList{claim("a", "1G", waits, boundTo("v"))}, volumes: volumeList{volume("v", "", "1G", waits)}},
		"PVC does not exist":        {missing: "a", preFilter: `persistentvolumeclaim "a" not found`},
		"Part of PVCs do not exist": {claims: claimList{claim("a", "1G", waits, boundTo("v"))}, missing: "b", preFilter: `persistentvolumeclaim "b" not found`},
		"immediate claims not bound": {
			claims: claimList{claim("a", "1G", immediate)}, preFilter: unboundClaims,
		},
		"unbound claims no matches": {claims: claimList{claim("a", "1G", waits)}, filter: [][]string{{noVolume}}},
		"bound and unbound unsatisfied": {
			claims:  claimList{claim("a", "1G", waits, boundTo("v")), claim("b", "1G", waits)},
			volumes: volumeList{volume("v", "", "1G", waits, labelled("foo", "bar"))},
			nodes:   []*corev1.Node{node("n1", "foo", "barbar")}, filter: [][]string{{otherNode, noVolume}},
		},
		"pv not found": {claims: claimList{claim("a", "1G", waits, boundTo("v"))}, filter: [][]string{{volumeIsGone}}},
		"pv not found claim lost": {
			claims: claimList{claim("a", "1G", waits, boundTo("v"), func(c *corev1.PersistentVolumeClaim) {
				c.Status.Phase = corev1.ClaimLost
			})},
			preFilter: `persistentvolumeclaim "a" bound to non-existent persistentvolume "v"`,
		},
		"local volumes with close capacity are preferred": {
			claims: claimList{claim("a", "50Gi", waits)}, volumes: localVolumes, nodes: threeNodes, scored: true,
			filter: [][]string{nil, nil, {noVolume}}, scores: []int64{25, 50, 0},
		},
		"local volumes with close capacity are preferred (multiple pvcs)": {
			claims: claimList{claim("a", "50Gi", waits), claim("b", "100Gi", hdd)},
			volumes: append(volumeList{
				volume("a2", "n1", "200Gi", hdd), volume("a3", "n1", "200Gi", hdd),
				volume("b2", "n2", "100Gi", hdd), volume("b3", "n2", "100Gi", hdd),
			}, localVolumes...),
			nodes: threeNodes, scored: true, filter: [][]string{nil, nil, {noVolume}}, scores: []int64{38, 75, 0},
		},
		"zonal volumes with close capacity are preferred": {
			claims: claimList{claim("a", "50Gi", waits)}, volumes: zonalVolumes, nodes: sixNodes, scored: true,
			filter: [][]string{nil, nil, nil, nil, {noVolume}, {noVolume}}, scores: []int64{25, 25, 50, 50, 0, 0},
		},
		"zonal volumes with close capacity are preferred (custom shape)": {
			claims: claimList{claim("a", "50Gi", waits)}, volumes: zonalVolumes, nodes: sixNodes, scored: true,
			shape:  shape(0, 0, 50, 3, 100, 5),
			filter: [][]string{nil, nil, nil, nil, {noVolume}, {noVolume}}, scores: []int64{15, 15, 30, 30, 0, 0},
		},
		"storage capacity score": {
			claims: claimList{claim("a", "10Gi", everywhere)}, published: publishedFree("100Gi", "50Gi", "10Gi"), nodes: threeNodes,
			scored: true, scores: []int64{10, 20, 100},
		},
		"storage capacity score with static binds": {
			claims: claimList{claim("a", "10Gi", everywhere), claim("b", "50Gi", waits)},
			volumes: volumeList{
				volume("v1", "n1", "100Gi", waits), volume("v2", "n2", "100Gi", waits), volume("v3", "n3", "100Gi", waits),
			},
			published: publishedFree("100Gi", "50Gi", "10Gi"), nodes: threeNodes, scored: true, scores: []int64{50, 50, 50},
		},
		"dynamic provisioning with multiple PVCs of the same StorageClass": {
			claims:    claimList{claim("a", "50Gi", everywhere), claim("b", "50Gi", everywhere)},
			published: publishedFree("100Gi"), scored: true, scores: []int64{100},
		},
		"prefer node with least allocatable": {
			claims: claimList{claim("a", "10Gi", everywhere)}, published: publishedFree("100Gi", "20Gi", "10Gi"), nodes: threeNodes,
			scored: true, scores: []int64{10, 50, 100},
		},
		"prefer node with maximum allocatable": {
			claims: claimList{claim("a", "10Gi", everywhere)}, published: publishedFree("100Gi", "20Gi", "10Gi"), nodes: threeNodes,
			scored: true, shape: freeFirst, scores: []int64{90, 50, 0},
		},
		// not in upstream's table
		"only the largest size is published": {
			claims: claimList{claim("a", "10Gi", everywhere)}, published: []metav1.Object{capacity("c", everywhere, "", "", "40Gi")},
			scored: true, scores: []int64{25},
		},
		"nothing is published": {
			claims: claimList{claim("a", "10Gi", provided)}, scored: true, scores: []int64{0},
		},
	} {
		t.Run(name, func(t *testing.T) { row.run(t) })
	}
}

func (row *pluginRow) run(t *testing.T) {
	args := Args{StorageCapacityScoring: row.scored, Shape: row.shape}
	if row.shape == nil {
		args.Shape = fullFirst
	}
	w := newRig(t, args)
	w.cached(classes()...)
	for _, class := range []struct{ name, of, driver string }{{everywhere, provided, "publisher"}, {hdd, waits, ""}} {
		c := w.plugin.class(class.of).DeepCopy()
		c.Name, c.AllowedTopologies = class.name, nil
		if class.driver != "" {
			c.Provisioner = class.driver
		}
		w.cached(c)
	}
	publisher := driver(true)
	publisher.Name = "publisher"
	w.cached(publisher)
	w.cached(row.published...)
	p := pod("p")
	for _, c := range row.claims {
		w.cached(c)
		p.Spec.Volumes = append(p.Spec.Volumes, pod("", c.Name).Spec.Volumes...)
	}
	if row.missing != "" {
		p.Spec.Volumes = append(p.Spec.Volumes, pod("", row.missing).Spec.Volumes...)
	}
	for _, v := range row.volumes {
		w.cached(v)
	}
	if row.nodes == nil {
		row.nodes = []*corev1.Node{node("n1")}
	}
	info, err := framework.NewPodInfo(p)
	w.NoError(err)
	cycle := framework.NewCycle(info, framework.NewSnapshot(row.nodes, nil))
	nodes, status := w.plugin.PreFilter(cycle)
	if nodes != nil || status.Message() != row.preFilter {
		t.Fatalf("PreFilter: %v, %+v", nodes, status)
	}
	if row.preFilter != "" {
		if status.Code != framework.UnschedulableAndUnresolvable {
			t.Errorf("PreFilter: %+v", status)
		}
		return
	}
	if skips := status.CodeOf() == framework.Skip; skips != (len(row.claims) == 0) {
		t.Errorf("PreFilter: %+v", status)
	}
	for i, n := range row.nodes {
		var want []string
		if row.filter != nil {
			want = row.filter[i]
		}
		status := w.plugin.Filter(cycle, cycle.Snapshot.Node(n.Name))
		if status == nil {
			status = &framework.Status{}
		}
		if diff := cmp.Diff(want, status.Reasons); diff != "" {
			t.Errorf("Filter of %s (-want +got):\n%s", n.Name, diff)
		}
	}
	status = w.plugin.PreScore(cycle, cycle.Snapshot.Nodes())
	if skips := status.CodeOf() == framework.Skip; skips != (row.scores == nil) {
		t.Errorf("PreScore: %+v", status)
	}
	for i, want := range row.scores {
		score, status := w.plugin.Score(cycle, cycle.Snapshot.Node(row.nodes[i].Name))
		if score != want || status != nil {
			t.Errorf("score of %s: %d, %+v; want %d", row.nodes[i].Name, score, status, want)
		}
	}
	if status := w.plugin.Normalize(cycle, nil); status != nil {
		t.Errorf("Normalize: %+v", status)
	}
}

func TestDefaults(t *testing.T) {
	w := newRig(t, Args{})
	if diff := cmp.Diff(freeFirst, w.plugin.args.Shape); diff != "" || w.plugin.args.BindTimeout.Seconds() != 600 || w.plugin.Name() != "VolumeBinding" {
		t.Errorf("%+v", w.plugin.args)
	}
}
