package framework

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/node/topology"
)

// A Snapshot is what the decision about a pod depends on. It is not changed while it is used.
type Snapshot struct {
	nodes  []*NodeInfo // in the order of the cache
	byName map[string]int
	claims map[cache.ObjectName]int // of pods with a node: how many use a claim
}

// NewSnapshot returns a snapshot of nodes and the pods on them.
func NewSnapshot(nodes []*corev1.Node, pods []*corev1.Pod) *Snapshot {
	c := NewCache()
	for _, node := range nodes {
		c.SetNode(node)
	}
	for _, pod := range pods {
		c.SetPod(pod)
	}
	return c.Snapshot()
}

// Nodes returns the nodes in their order. It must not be changed.
func (s *Snapshot) Nodes() []*NodeInfo { return s.nodes }

// Node returns a node, nil if there is none of the name.
func (s *Snapshot) Node(name string) *NodeInfo {
	if i, ok := s.byName[name]; ok {
		return s.nodes[i]
	}
	return nil
}

// ClaimInUse reports whether a pod with a node uses a claim.
func (s *Snapshot) ClaimInUse(claim cache.ObjectName) bool { return s.claims[claim] > 0 }

// A Cache has the nodes, and the pods that are on them or assumed to be.
//
// Upstream: pkg/scheduler/backend/cache (v1.36).
type Cache struct {
	infos map[string]*NodeInfo     // by name; those without a Node have pods
	pods  map[types.UID]*cachedPod // with a node
	now   Snapshot
	// ordered says that now.nodes are the nodes of infos; shared that a snapshot is in use.
	ordered, shared bool
}

type cachedPod struct {
	info    *PodInfo
	node    string
	assumed bool // the API server does not say yet that the pod is on the node
}

// NewCache returns an empty cache.
func NewCache() *Cache {
	return &Cache{
		infos: map[string]*NodeInfo{}, pods: map[types.UID]*cachedPod{},
		now: Snapshot{byName: map[string]int{}, claims: map[cache.ObjectName]int{}}, ordered: true,
	}
}

// Snapshot returns the present state. It keeps that state until Release is called, or for good.
func (c *Cache) Snapshot() *Snapshot {
	if !c.ordered {
		c.own()
		c.order()
	}
	c.shared = true
	s := c.now
	return &s
}

// Release says that the last snapshot is not used any more.
func (c *Cache) Release() { c.shared = false }

// own makes changes possible.
func (c *Cache) own() {
	if c.shared {
		c.now = Snapshot{nodes: slices.Clone(c.now.nodes), byName: maps.Clone(c.now.byName), claims: maps.Clone(c.now.claims)}
		c.shared = false
	}
}

// order sorts the nodes: zones take turns.
//
// Upstream: pkg/scheduler/backend/cache nodeTree (v1.36).
func (c *Cache) order() {
	zones := map[string][]*NodeInfo{}
	for _, name := range slices.Sorted(maps.Keys(c.infos)) {
		if info := c.infos[name]; info.Node != nil {
			zone := topology.GetZoneKey(info.Node)
			zones[zone] = append(zones[zone], info)
		}
	}
	names := slices.Sorted(maps.Keys(zones))
	c.now.nodes, c.now.byName = c.now.nodes[:0], make(map[string]int, len(c.infos))
	for i := 0; len(names) > 0; i++ {
		names = slices.DeleteFunc(names, func(zone string) bool { return i >= len(zones[zone]) })
		for _, zone := range names {
			c.now.byName[zones[zone][i].Node.Name] = len(c.now.nodes)
			c.now.nodes = append(c.now.nodes, zones[zone][i])
		}
	}
	c.ordered = true
}

// put replaces what is known of a node.
func (c *Cache) put(name string, info *NodeInfo) {
	if info.Node == nil && len(info.Pods) == 0 {
		delete(c.infos, name)
		return
	}
	c.infos[name] = info
	if i, ok := c.now.byName[name]; ok && c.ordered && info.Node != nil {
		c.own()
		c.now.nodes[i] = info
	}
}

func (c *Cache) info(name string) *NodeInfo {
	if info := c.infos[name]; info != nil {
		return info
	}
	return &NodeInfo{}
}

// SetNode adds or replaces a node.
func (c *Cache) SetNode(node *corev1.Node) {
	info := c.info(node.Name)
	if info.Node == nil || topology.GetZoneKey(info.Node) != topology.GetZoneKey(node) {
		c.ordered = false
	}
	c.put(node.Name, info.withNode(node))
}

// RemoveNode removes a node.
func (c *Cache) RemoveNode(name string) {
	if info := c.infos[name]; info != nil {
		c.ordered = false
		c.put(name, info.withNode(nil))
	}
}

// SetPod adds or replaces a pod that the API server has on a node.
func (c *Cache) SetPod(pod *corev1.Pod) { c.set(pod, pod.Spec.NodeName, false) }

// Assume adds a pod to a node on which it will be.
func (c *Cache) Assume(pod *corev1.Pod, node string) { c.set(pod, node, true) }

func (c *Cache) set(pod *corev1.Pod, node string, assumed bool) {
	c.RemovePod(pod.UID)
	info, _ := NewPodInfo(pod) // invalid terms are left out
	c.pods[pod.UID] = &cachedPod{info: info, node: node, assumed: assumed}
	c.put(node, c.info(node).With(info))
	c.countClaims(pod, 1)
}

// RemovePod removes a pod. It reports whether there was one.
func (c *Cache) RemovePod(uid types.UID) bool {
	p := c.pods[uid]
	if p == nil {
		return false
	}
	delete(c.pods, uid)
	c.put(p.node, c.info(p.node).Without(uid))
	c.countClaims(p.info.Pod, -1)
	return true
}

// IsAssumed reports whether a pod is assumed to be on a node on which the API server does not have it yet.
func (c *Cache) IsAssumed(uid types.UID) bool {
	p := c.pods[uid]
	return p != nil && p.assumed
}

// countClaims counts the claims that a pod names.
func (c *Cache) countClaims(pod *corev1.Pod, sign int) {
	for i := range pod.Spec.Volumes {
		source := pod.Spec.Volumes[i].PersistentVolumeClaim
		if source == nil {
			continue
		}
		c.own()
		claim := cache.NewObjectName(pod.Namespace, source.ClaimName)
		if c.now.claims[claim] += sign; c.now.claims[claim] == 0 {
			delete(c.now.claims, claim)
		}
	}
}
