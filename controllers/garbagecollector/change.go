package garbagecollector

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// objectChanged adds an object to the graph, or updates its node.
//
// Upstream: pkg/controller/garbagecollector GraphBuilder.processGraphChanges.
func (c *controller) objectChanged(kind schema.GroupVersionKind, old, obj metav1.Object) {
	n := c.graph[obj.GetUID()]
	if n == nil {
		n = newNode(kind, obj)
		c.insert(n)
	} else {
		if n.virtual {
			c.identify(n, identityOf(kind, obj))
		}
		c.changeOwners(n, obj.GetOwnerReferences())
		n.beingDeleted = n.beingDeleted || beingDeleted(obj)
	}
	c.startDeletion(old, obj, n)
	c.prune(n)
}

// identify turns a virtual node into the node of an observed object. Dependents that refer to it by
// another identity are queued: their owner may be another object.
func (c *controller) identify(n *node, id identity) {
	n.virtual = false
	if id == n.id {
		return
	}
	_, doubtful := partition(n.sorted(), id)
	n.id = id
	for _, dependent := range doubtful {
		if id.Namespace != "" && dependent.id.Namespace != id.Namespace {
			c.reportNamespace(dependent, id.UID)
		}
		c.collect.Add(dependent.id)
	}
}

// startDeletion queues the work of a deletion that has just begun.
//
// Upstream: pkg/controller/garbagecollector GraphBuilder.processTransitions.
func (c *controller) startDeletion(old, obj metav1.Object, n *node) {
	begins := func(finalizer string) bool {
		return waitsFor(obj, finalizer) && (old == nil || !waitsFor(old, finalizer))
	}
	switch {
	case begins(metav1.FinalizerOrphanDependents):
		c.orphan.Add(n.id)
	case begins(metav1.FinalizerDeleteDependents):
		n.deletingDependents = true
		for _, dependent := range n.sorted() {
			c.collect.Add(dependent.id)
		}
		c.collect.Add(n.id)
	}
}

// changeOwners sets the owners of a node. An owner that waits for its dependents and is no longer
// blocked is queued.
//
// Upstream: pkg/controller/garbagecollector referencesDiffs,
// GraphBuilder.addUnblockedOwnersToDeleteQueue.
func (c *controller) changeOwners(n *node, owners []metav1.OwnerReference) {
	old := n.owners
	if apiequality.Semantic.DeepEqual(old, owners) {
		return
	}
	n.owners = owners
	var added []metav1.OwnerReference
	for _, ref := range owners {
		if reference(old, ref.UID) == nil {
			added = append(added, ref)
		}
	}
	for _, ref := range old {
		obj := reference(owners, ref.UID)
		owner := c.graph[ref.UID]
		if owner != nil && blocks(ref) && (obj == nil || !blocks(*obj)) {
			c.collect.Add(owner.id)
		}
		if owner != nil && obj == nil {
			delete(owner.dependents, n)
			c.prune(owner)
		}
	}
	c.link(n, added)
}

func reference(refs []metav1.OwnerReference, uid types.UID) *metav1.OwnerReference {
	i := slices.IndexFunc(refs, func(ref metav1.OwnerReference) bool { return ref.UID == uid })
	if i < 0 {
		return nil
	}
	return &refs[i]
}

// insert adds a node to the graph, and links it to its owners.
func (c *controller) insert(n *node) {
	c.graph[n.id.UID] = n
	c.link(n, n.owners)
}

// link makes a node a dependent of owners. An owner that was not observed gets a virtual node, and
// is queued. If a reference seems not to match its owner, the node itself is queued.
//
// Upstream: pkg/controller/garbagecollector GraphBuilder.addDependentToOwners.
func (c *controller) link(n *node, owners []metav1.OwnerReference) {
	doubtful := false
	for _, ref := range owners {
		owner := c.graph[ref.UID]
		if owner == nil {
			owner = c.nodeFromCache(ref, n.id.Namespace)
		}
		if owner == nil {
			owner = &node{id: ownerOf(ref, n.id.Namespace), dependents: map[*node]struct{}{n: {}}, virtual: true}
			c.graph[ref.UID] = owner
			c.collect.Add(owner.id)
			continue
		}
		owner.dependents[n] = struct{}{}
		if !doubtful {
			doubtful = c.isDoubtful(n, ref, owner)
		}
	}
	if doubtful {
		c.collect.Add(n.id)
	}
}

// isDoubtful reports whether a reference seems not to match the owner with its UID.
func (c *controller) isDoubtful(n *node, ref metav1.OwnerReference, owner *node) bool {
	elsewhere := owner.id.Namespace != n.id.Namespace
	switch {
	case owner.id.Namespace != "" && elsewhere:
		if !owner.virtual {
			c.reportNamespace(n, ref.UID)
		}
		return true
	case !owner.id.matches(ref):
		return true
	default: // a cluster-scoped dependent named it, but it may be namespaced
		return owner.virtual && elsewhere
	}
}

// nodeFromCache adds an owner to the graph that the watcher has cached. It returns nil if there is
// none.
func (c *controller) nodeFromCache(ref metav1.OwnerReference, namespace string) *node {
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	obj := c.watcher.Seen(kind, namespace, ref.Name, ref.UID)
	if obj == nil {
		return nil
	}
	n := newNode(kind, obj)
	c.insert(n)
	c.startDeletion(nil, obj, n)
	return n
}

// objectDeleted removes a deleted object from the graph.
func (c *controller) objectDeleted(id identity) {
	if n := c.graph[id.UID]; n != nil {
		c.removeNode(n, id)
	}
}

// verifiedAbsent removes an object from the graph that does not exist on the server. The graph may
// know the UID by another identity. Then only the dependents that refer to this one are queued.
//
// Upstream: pkg/controller/garbagecollector GraphBuilder.processGraphChanges, for a virtual
// deletion.
func (c *controller) verifiedAbsent(id identity) {
	n := c.graph[id.UID]
	if n == nil {
		return
	}
	matching, others := partition(n.sorted(), id)
	if n.virtual && len(others) == 0 || !n.virtual && n.id == id {
		c.removeNode(n, id)
		return
	}
	if len(matching) > 0 {
		c.absent.add(id)
		for _, dependent := range matching {
			c.collect.Add(dependent.id)
		}
	}
	if n.virtual && n.id == id {
		if other, ok := alternative(others, id); ok {
			n.id = other
			c.collect.AddRateLimited(other)
		}
	}
}

// removeNode removes a node from the graph, and queues the nodes that waited for it.
func (c *controller) removeNode(n *node, id identity) {
	delete(c.graph, n.id.UID)
	for _, ref := range n.owners {
		if owner := c.graph[ref.UID]; owner != nil {
			delete(owner.dependents, n)
		}
	}
	if len(n.dependents) > 0 {
		c.absent.add(id)
	}
	for _, dependent := range n.sorted() {
		c.collect.Add(dependent.id)
	}
	for _, ref := range n.owners {
		if owner := c.graph[ref.UID]; owner != nil {
			if owner.deletingDependents {
				c.collect.Add(owner.id)
			}
			c.prune(owner)
		}
	}
}

// prune removes a node from the graph if it has neither owners nor dependents.
func (c *controller) prune(n *node) {
	if len(n.owners) == 0 && len(n.dependents) == 0 && !n.beingDeleted {
		delete(c.graph, n.id.UID)
	}
}

// reportNamespace records an event about a reference to an owner in another namespace.
//
// Upstream: pkg/controller/garbagecollector GraphBuilder.reportInvalidNamespaceOwnerRef.
func (c *controller) reportNamespace(n *node, owner types.UID) {
	ref := reference(n.owners, owner)
	if ref == nil {
		return
	}
	about := &corev1.ObjectReference{
		Kind: n.id.Kind, APIVersion: n.id.APIVersion, Namespace: n.id.Namespace, Name: n.id.Name, UID: n.id.UID,
	}
	c.recorder.Eventf(about, corev1.EventTypeWarning, "OwnerRefInvalidNamespace",
		"ownerRef %s does not exist in namespace %q", ownerOf(*ref, n.id.Namespace), n.id.Namespace)
}
