package provisioner

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

// A topology computes where volumes are accessible, from the topology keys of the nodes' drivers.
// The zero value is for a driver whose volumes are accessible everywhere.
type topology struct {
	driver   string
	strict   bool
	csiNodes storagelisters.CSINodeLister // nil: accessible everywhere
	nodes    corelisters.NodeLister
}

// A segmentSet is a set of topology segments that a node has together.
type segmentSet map[string]string

// keys returns the keys of the segments, sorted.
func (p segmentSet) keys() []string { return slices.Sorted(maps.Keys(p)) }

// isSubsetOf reports whether other has all segments of p.
func (p segmentSet) isSubsetOf(other segmentSet) bool {
	for key, value := range p {
		if otherValue, ok := other[key]; !ok || otherValue != value {
			return false
		}
	}
	return true
}

// compare orders sets by number of segments, then by keys and values.
func (p segmentSet) compare(other segmentSet) int {
	if byLength := cmp.Compare(len(p), len(other)); byLength != 0 {
		return byLength
	}
	theirs := other.keys()
	for i, key := range p.keys() {
		if c := cmp.Or(strings.Compare(key, theirs[i]), strings.Compare(p[key], other[theirs[i]])); c != 0 {
			return c
		}
	}
	return 0
}

// requirement returns the accessibility requirements of a claim's volume, or nil if there are none.
// If the selected node or its CSINode does not exist, the error is the lister's.
//
// Differs: without a selected node, the keys are those of the first node by name that has any;
// upstream takes any node.
//
// Upstream: external-provisioner pkg/controller GenerateAccessibilityRequirements (6.3.0) with
// --immediate-topology.
func (t topology) requirement(
	claim *corev1.PersistentVolumeClaim, allowed []corev1.TopologySelectorTerm,
) (*csispec.TopologyRequirement, error) {
	if t.csiNodes == nil {
		return nil, nil //nolint:nilnil // everywhere
	}
	var places, preferred []segmentSet
	var err error
	if node := claim.Annotations[storagehelpers.AnnSelectedNode]; node == "" {
		places, err = t.forAnyNode(allowed)
		preferred = rotated(places, hashOffset(claim.Name))
	} else {
		places, preferred, err = t.forNode(node, allowed)
	}
	if err != nil || len(places) == 0 {
		return nil, err
	}
	return &csispec.TopologyRequirement{Requisite: segments(places), Preferred: segments(preferred)}, nil
}

// forAnyNode returns the topology of a volume without a selected node.
func (t topology) forAnyNode(allowed []corev1.TopologySelectorTerm) ([]segmentSet, error) {
	if len(allowed) > 0 {
		return sorted(flatten(allowed)), nil
	}
	csiNodes, err := t.csiNodes.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("error listing CSINodes: %w", err)
	}
	names := make([]string, len(csiNodes))
	for i, node := range csiNodes {
		names[i] = node.Name
	}
	slices.Sort(names)
	for _, name := range names {
		if keys, err := t.nodeKeys(name); err == nil && len(keys) > 0 {
			return t.ofAllNodes(keys)
		}
	}
	return nil, errors.New("no available topology found")
}

// forNode returns the topology of a volume with a selected node, and the same in order of
// preference, the node's own first.
func (t topology) forNode(
	node string, allowed []corev1.TopologySelectorTerm,
) (places, preferred []segmentSet, err error) {
	keys, err := t.nodeKeys(node)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to get selected CSINode %s: %w", node, err)
	}
	if len(keys) == 0 {
		return nil, nil, fmt.Errorf("no topology key found for node %s", node)
	}
	var has map[string]string
	if chosen, err := t.nodes.Get(node); err == nil {
		has = chosen.Labels
	}
	own, ok := segmentSetOf(has, keys)
	if !ok {
		return nil, nil, fmt.Errorf(
			"topology labels from selected node %v does not match topology keys from CSINode %v", has, keys,
		)
	}
	places = sorted(flatten(allowed))
	contains := func(p segmentSet) bool { return p.isSubsetOf(own) }
	if t.strict {
		if len(places) > 0 && !slices.ContainsFunc(places, contains) {
			return nil, nil, fmt.Errorf(
				"selected node '%q' topology '%v' is not in allowed topologies: %v", node, own, places,
			)
		}
		return []segmentSet{own}, []segmentSet{own}, nil
	}
	if len(places) == 0 {
		if places, err = t.ofAllNodes(keys); err != nil {
			return nil, nil, err
		}
	}
	first := slices.IndexFunc(places, contains)
	if first < 0 {
		return nil, nil, fmt.Errorf("topology %v from selected node %q is not in requisite: %v", own, node, places)
	}
	return places, rotated(places, uint32(first)), nil
}

// nodeKeys returns the topology keys that the driver reported for a node.
func (t topology) nodeKeys(node string) ([]string, error) {
	csiNode, err := t.csiNodes.Get(node)
	if err != nil {
		return nil, err
	}
	for _, driver := range csiNode.Spec.Drivers {
		if driver.Name == t.driver {
			return driver.TopologyKeys, nil
		}
	}
	return nil, nil
}

// ofAllNodes returns the segments of all nodes that have all the keys, sorted, without duplicates.
func (t topology) ofAllNodes(keys []string) ([]segmentSet, error) {
	nodes, err := t.nodes.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("error listing nodes: %w", err)
	}
	var places []segmentSet
	for _, node := range nodes {
		if p, ok := segmentSetOf(node.Labels, keys); ok {
			places = append(places, p)
		}
	}
	if len(places) == 0 {
		return nil, fmt.Errorf("topologyKeys %v were not found on any nodes", keys)
	}
	return sorted(places), nil
}

// segmentSetOf returns the segments of a node with these labels, or false if a key is missing.
func segmentSetOf(labels map[string]string, keys []string) (segmentSet, bool) {
	p := segmentSet{}
	for _, key := range keys {
		value, ok := labels[key]
		if !ok {
			return nil, false
		}
		p[key] = value
	}
	return p, true
}

// flatten returns the topologies that a class allows: each combination of the values of a term.
//
// Upstream: external-provisioner pkg/controller flatten (6.3.0).
func flatten(allowed []corev1.TopologySelectorTerm) []segmentSet {
	var all []segmentSet
	for _, term := range allowed {
		var combined []segmentSet
		for i, expression := range term.MatchLabelExpressions {
			if i == 0 {
				combined = []segmentSet{{}}
			}
			var longer []segmentSet
			for _, value := range expression.Values {
				for _, p := range combined {
					p = maps.Clone(p)
					p[expression.Key] = value
					longer = append(longer, p)
				}
			}
			combined = longer
		}
		all = append(all, combined...)
	}
	return all
}

// sorted sorts sets and removes duplicates.
func sorted(places []segmentSet) []segmentSet {
	slices.SortFunc(places, segmentSet.compare)
	return slices.CompactFunc(places, func(a, b segmentSet) bool { return a.compare(b) == 0 })
}

// rotated returns the sets from index first on, followed by those before it. first wraps around.
func rotated(places []segmentSet, first uint32) []segmentSet {
	if len(places) == 0 {
		return nil
	}
	at := first % uint32(len(places))
	return slices.Concat(places[at:], places[:at])
}

func segments(places []segmentSet) []*csispec.Topology {
	all := make([]*csispec.Topology, len(places))
	for i, p := range places {
		all[i] = &csispec.Topology{Segments: p}
	}
	return all
}

// hashOffset returns the index, before wrapping, of the preferred topology of a claim without
// selected node. The claims of one StatefulSet get consecutive ones.
//
// Upstream: external-provisioner pkg/controller getPVCNameHashAndIndexOffset (6.3.0).
func hashOffset(claim string) uint32 {
	var index uint32
	if at := strings.LastIndexByte(claim, '-'); at >= 0 {
		if n, err := strconv.ParseUint(claim[at+1:], 10, 32); err == nil {
			index, claim = uint32(n), claim[:at]
			claim = claim[strings.LastIndexByte(claim, '-')+1:]
		}
	}
	h := fnv.New32()
	h.Write([]byte(claim))
	return h.Sum32() + index
}

// nodeAffinity returns the node affinity of a volume, or nil for all nodes.
//
// Upstream: external-provisioner pkg/controller GenerateVolumeNodeAffinity (6.3.0).
func nodeAffinity(accessible []*csispec.Topology) *corev1.VolumeNodeAffinity {
	if len(accessible) == 0 {
		return nil
	}
	selector := &corev1.NodeSelector{}
	for _, each := range accessible {
		p := segmentSet(each.GetSegments())
		if len(p) == 0 {
			continue
		}
		var term corev1.NodeSelectorTerm
		for _, key := range p.keys() {
			term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{
				Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{p[key]},
			})
		}
		selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, term)
	}
	return &corev1.VolumeNodeAffinity{Required: selector}
}
