package garbagecollector

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// identity identifies an object by kind, namespace, name and UID.
type identity struct {
	APIVersion, Kind, Namespace, Name string
	UID                               types.UID
}

// String returns the form that events contain.
//
// Upstream: pkg/controller/garbagecollector objectReference.String.
func (id identity) String() string {
	return fmt.Sprintf("[%s/%s, namespace: %s, name: %s, uid: %s]", id.APIVersion, id.Kind, id.Namespace, id.Name,
		id.UID)
}

func (id identity) gvk() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(id.APIVersion, id.Kind)
}

// withoutNamespace returns the identity without its namespace.
func (id identity) withoutNamespace() identity {
	id.Namespace = ""
	return id
}

// compare orders identities, by kind first.
//
// Upstream: pkg/controller/garbagecollector referenceLessThan.
func (id identity) compare(other identity) int {
	return cmp.Or(
		cmp.Compare(id.Kind, other.Kind), cmp.Compare(id.APIVersion, other.APIVersion),
		cmp.Compare(id.Namespace, other.Namespace), cmp.Compare(id.Name, other.Name), cmp.Compare(id.UID, other.UID))
}

func identityOf(kind schema.GroupVersionKind, obj metav1.Object) identity {
	id := identity{Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID()}
	id.APIVersion, id.Kind = kind.ToAPIVersionAndKind()
	return id
}

// ownerOf returns the identity of the owner that an object in a namespace refers to.
func ownerOf(ref metav1.OwnerReference, namespace string) identity {
	return identity{APIVersion: ref.APIVersion, Kind: ref.Kind, Namespace: namespace, Name: ref.Name, UID: ref.UID}
}

// matches reports whether a reference has this identity, in any namespace.
func (id identity) matches(ref metav1.OwnerReference) bool { return ownerOf(ref, id.Namespace) == id }

// node is an object in the graph.
type node struct {
	id                 identity
	owners             []metav1.OwnerReference
	dependents         map[*node]struct{}
	virtual            bool // known only from the references of dependents
	beingDeleted       bool
	deletingDependents bool // being deleted, and waiting for its dependents
}

// newNode returns the node of an observed object.
func newNode(kind schema.GroupVersionKind, obj metav1.Object) *node {
	return &node{
		id: identityOf(kind, obj), owners: obj.GetOwnerReferences(), dependents: map[*node]struct{}{},
		beingDeleted:       beingDeleted(obj),
		deletingDependents: waitsFor(obj, metav1.FinalizerDeleteDependents),
	}
}

// sorted returns the dependents in order.
func (n *node) sorted() []*node {
	return slices.SortedFunc(maps.Keys(n.dependents), func(a, b *node) int { return a.id.compare(b.id) })
}

// blocking returns the dependents that block the deletion of the node, in order.
func (n *node) blocking() []*node {
	return slices.DeleteFunc(n.sorted(), func(dependent *node) bool {
		return !slices.ContainsFunc(dependent.owners, func(ref metav1.OwnerReference) bool {
			return ref.UID == n.id.UID && blocks(ref)
		})
	})
}

func blocks(ref metav1.OwnerReference) bool {
	return ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion
}

func beingDeleted(obj metav1.Object) bool { return obj.GetDeletionTimestamp() != nil }

func hasFinalizer(obj metav1.Object, finalizer string) bool {
	return slices.Contains(obj.GetFinalizers(), finalizer)
}

// waitsFor reports whether an object is being deleted and has a finalizer.
func waitsFor(obj metav1.Object, finalizer string) bool {
	return beingDeleted(obj) && hasFinalizer(obj, finalizer)
}

// partition returns the dependents that refer to an owner by this identity, and those that do by
// another. Some do both.
//
// Upstream: pkg/controller/garbagecollector partitionDependents.
func partition(dependents []*node, owner identity) (matching, others []*node) {
	for _, dependent := range dependents {
		match, mismatch := false, owner.Namespace != "" && owner.Namespace != dependent.id.Namespace
		if !mismatch {
			for _, ref := range dependent.owners {
				if ref.UID == owner.UID {
					match = match || owner.matches(ref)
					mismatch = mismatch || !owner.matches(ref)
				}
			}
		}
		if match {
			matching = append(matching, dependent)
		}
		if mismatch {
			others = append(others, dependent)
		}
	}
	return matching, others
}

// alternative returns another identity by which dependents refer to an absent owner: the next in
// order, or else the first. ok is false if there is none.
//
// Upstream: pkg/controller/garbagecollector getAlternateOwnerIdentity.
func alternative(dependents []*node, absent identity) (next identity, ok bool) {
	var others []identity
	for _, dependent := range dependents {
		for _, ref := range dependent.owners {
			other := ownerOf(ref, dependent.id.Namespace)
			if absent.Namespace == "" && other.APIVersion == absent.APIVersion && other.Kind == absent.Kind {
				other.Namespace = "" // the kind is known to be cluster-scoped
			}
			if ref.UID == absent.UID && other != absent {
				others = append(others, other)
			}
		}
	}
	if len(others) == 0 {
		return identity{}, false
	}
	slices.SortFunc(others, identity.compare)
	for _, other := range others {
		if absent.compare(other) < 0 {
			return other, true
		}
	}
	return others[0], true
}

// absentMax bounds how many absent owners are remembered.
//
// Upstream: pkg/controller/garbagecollector NewReferenceCache.
const absentMax = 500

// absentOwners are owners that are known not to exist. UIDs are not reused, so none of them is
// created again.
type absentOwners struct {
	known map[identity]struct{}
	order []identity // oldest first
}

func (a *absentOwners) add(id identity) {
	if a.known == nil {
		a.known = map[identity]struct{}{}
	}
	if a.has(id) {
		return
	}
	if len(a.order) == absentMax {
		delete(a.known, a.order[0])
		a.order = a.order[1:]
	}
	a.known[id] = struct{}{}
	a.order = append(a.order, id)
}

func (a *absentOwners) has(id identity) bool {
	_, ok := a.known[id]
	return ok
}
