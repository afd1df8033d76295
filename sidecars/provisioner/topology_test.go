package provisioner

import (
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
)

// nodesOf are listers of nodes with labels, on each of which driver d has told the keys.
func nodesOf(keys []string, labels map[string]map[string]string) topology {
	nodes, csiNodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil), cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	add := func(indexer cache.Indexer, obj any) {
		if err := indexer.Add(obj); err != nil {
			panic(err)
		}
	}
	for name, has := range labels {
		add(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: has}})
		add(csiNodes, &storagev1.CSINode{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
				{Name: "e", TopologyKeys: []string{"other"}}, {Name: "d", TopologyKeys: keys},
			}},
		})
	}
	return topology{driver: "d", csiNodes: storagelisters.NewCSINodeLister(csiNodes), nodes: corelisters.NewNodeLister(nodes)}
}

func places(values ...string) []*csispec.Topology {
	all := make([]*csispec.Topology, len(values))
	for i, value := range values {
		all[i] = &csispec.Topology{Segments: map[string]string{"zone": value}}
	}
	return all
}

func zones(values ...string) []corev1.TopologySelectorTerm {
	return []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: "zone", Values: values}}}}
}

func TestRequirement(t *testing.T) {
	zone := []string{"zone"}
	three := map[string]map[string]string{"n1": {"zone": "a"}, "n2": {"zone": "b"}, "n3": {"zone": "c"}, "n4": {"zone": "a"}, "n5": {}}
	tests := []struct {
		name      string
		keys      []string
		claim     string // "": data
		node      string
		allowed   []corev1.TopologySelectorTerm
		strict    bool
		requisite []*csispec.Topology
		preferred []*csispec.Topology
		wantErr   string
	}{
		{name: "no node", keys: zone, requisite: places("a", "b", "c"), preferred: places("a", "b", "c")},
		{name: "a StatefulSet's first", keys: zone, claim: "data-web-0", requisite: places("a", "b", "c"), preferred: places("a", "b", "c")},
		{name: "its second", keys: zone, claim: "data-web-1", requisite: places("a", "b", "c"), preferred: places("b", "c", "a")},
		{name: "its other claim's", keys: zone, claim: "log-web-1", requisite: places("a", "b", "c"), preferred: places("b", "c", "a")},
		{name: "no node, allowed", keys: zone, allowed: zones("b", "a"), requisite: places("a", "b"), preferred: places("b", "a")},
		{name: "a node", keys: zone, node: "n2", requisite: places("a", "b", "c"), preferred: places("b", "c", "a")},
		{name: "a node, strictly", keys: zone, node: "n2", strict: true, requisite: places("b"), preferred: places("b")},
		{name: "a node, allowed", keys: zone, node: "n3", allowed: zones("c", "a"), requisite: places("a", "c"), preferred: places("c", "a")},
		{
			name: "a node, not allowed", keys: zone, node: "n2", allowed: zones("c", "a"),
			wantErr: `topology map[zone:b] from selected node "n2" is not in requisite: [map[zone:a] map[zone:c]]`,
		},
		{
			name: "a node, strictly not allowed", keys: zone, node: "n2", allowed: zones("c"), strict: true,
			wantErr: `selected node '"n2"' topology 'map[zone:b]' is not in allowed topologies: [map[zone:c]]`,
		},
		{name: "no keys anywhere", wantErr: "no available topology found"},
		{name: "no keys on the node", node: "n1", wantErr: "no topology key found for node n1"},
		{
			name: "a node without the label", keys: zone, node: "n5",
			wantErr: "topology labels from selected node map[] does not match topology keys from CSINode [zone]",
		},
		{name: "labels of no node", keys: []string{"rack"}, wantErr: "topologyKeys [rack] were not found on any nodes"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			at := nodesOf(test.keys, three)
			at.strict = test.strict
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: test.claim}}
			if test.claim == "" {
				claim.Name = "data"
			}
			if test.node != "" {
				claim.Annotations = map[string]string{"volume.kubernetes.io/selected-node": test.node}
			}
			got, err := at.requirement(claim, test.allowed)
			if test.wantErr != "" {
				if err == nil || err.Error() != test.wantErr {
					t.Errorf("error %v, want %s", err, test.wantErr)
				}
				return
			}
			want := &csispec.TopologyRequirement{Requisite: test.requisite, Preferred: test.preferred}
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" || err != nil {
				t.Errorf("error %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestRequirementForANodeThatIsGone(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{}
	claim.Annotations = map[string]string{"volume.kubernetes.io/selected-node": "gone"}
	if _, err := nodesOf([]string{"zone"}, nil).requirement(claim, nil); !apierrors.IsNotFound(err) {
		t.Errorf("error %v, want that the CSINode is not found", err)
	}
}

func TestRequirementOfADriverWithoutTopology(t *testing.T) {
	if got, err := (topology{}).requirement(&corev1.PersistentVolumeClaim{}, zones("a")); got != nil || err != nil {
		t.Errorf("requirement %v, %v; want none", got, err)
	}
}

func TestFlatten(t *testing.T) {
	allowed := []corev1.TopologySelectorTerm{
		{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{
			{Key: "zone", Values: []string{"b", "a"}}, {Key: "rack", Values: []string{"1", "2"}},
		}},
		{},
		zones("c")[0],
	}
	want := []segmentSet{
		{"zone": "c"},
		{"rack": "1", "zone": "a"},
		{"rack": "1", "zone": "b"},
		{"rack": "2", "zone": "a"},
		{"rack": "2", "zone": "b"},
	}
	if diff := cmp.Diff(want, sorted(flatten(allowed))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNodeAffinity(t *testing.T) {
	if got := nodeAffinity(nil); got != nil {
		t.Errorf("affinity %v of a volume that is usable everywhere", got)
	}
	got := nodeAffinity([]*csispec.Topology{{Segments: map[string]string{"zone": "a", "rack": "1"}}, {}, places("b")[0]})
	in := func(key, value string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}
	}
	want := &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
		{MatchExpressions: []corev1.NodeSelectorRequirement{in("rack", "1"), in("zone", "a")}},
		{MatchExpressions: []corev1.NodeSelectorRequirement{in("zone", "b")}},
	}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
