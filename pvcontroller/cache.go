package pvcontroller

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

type object interface {
	metav1.Object
	runtime.Object
}

// freshness says how a version of an object compares with the one that is kept.
type freshness int

const (
	older freshness = iota // than the one kept, which therefore stays
	same                   // as the one kept
	newer                  // than the one kept, or the first
)

// versions keeps the newest version the controller knows of each object of one kind: from its informer, or from the
// answer to a write of its own, whichever is newer. Objects are read-only.
//
// Differs: upstream tells old from new by resourceVersion alone. Here the UID counts too: the answer to a write never
// brings back an object that was deleted meanwhile, and never replaces one that was made anew under its name.
//
// Upstream: pkg/controller/volume/persistentvolume storeObjectUpdate (v1.36).
type versions[T object] struct {
	objects map[string]T
	added   func(T) // keep the indexes right
	removed func(T)
}

func newVersions[T object](added, removed func(T)) versions[T] {
	return versions[T]{objects: map[string]T{}, added: added, removed: removed}
}

// get returns the version kept under a key; the zero value when there is none.
func (v *versions[T]) get(key string) T { return v.objects[key] }

// put keeps an object the informer has shown, unless a newer version of it is kept. One with another UID replaces what is
// kept, as a deletion in between was not seen; the caller looks for that first.
func (v *versions[T]) put(obj T) (freshness, error) {
	key := keyOf(obj)
	known, ok := v.objects[key]
	if ok && known.GetUID() == obj.GetUID() {
		c, err := resourceversion.CompareResourceVersion(obj.GetResourceVersion(), known.GetResourceVersion())
		switch {
		case err != nil:
			return older, fmt.Errorf("compare versions of %s: %w", key, err)
		case c < 0:
			return older, nil
		case c == 0:
			return same, nil
		}
	}
	if ok {
		v.removed(known)
	}
	v.objects[key] = obj
	v.added(obj)
	return newer, nil
}

// putWritten keeps the answer to a write, if the object is still kept under its key and not newer.
func (v *versions[T]) putWritten(obj T) (freshness, error) {
	known, ok := v.objects[keyOf(obj)]
	if !ok || known.GetUID() != obj.GetUID() {
		return older, nil
	}
	return v.put(obj)
}

func (v *versions[T]) delete(key string) {
	if known, ok := v.objects[key]; ok {
		v.removed(known)
		delete(v.objects, key)
	}
}

// keys maps a name to the set of keys that have it.
type keys map[string]keySet

// keySet is a set of keys that is not empty. It mostly has one.
type keySet struct {
	one  string
	more map[string]struct{} // all of them; nil: there is but one
}

func (k keys) add(name, key string) {
	set, ok := k[name]
	switch {
	case !ok:
		k[name] = keySet{one: key}
	case set.more != nil:
		set.more[key] = struct{}{}
	case set.one != key:
		k[name] = keySet{more: map[string]struct{}{set.one: {}, key: {}}}
	}
}

func (k keys) remove(name, key string) {
	set := k[name]
	delete(set.more, key)
	if len(set.more) == 0 && (set.more != nil || set.one == key) {
		delete(k, name)
	}
}

func (k keys) sorted(name string) []string {
	set, ok := k[name]
	switch {
	case !ok:
		return nil
	case set.more == nil:
		return []string{set.one}
	}
	return slices.Sorted(maps.Keys(set.more))
}

// claimCache keeps the claims.
type claimCache struct {
	versions[*corev1.PersistentVolumeClaim]
	byVolume keys        // volume name: the claims whose spec.volumeName it is
	unbound  keys        // class: the claims that look for a volume
	idle     *claimIndex // those of them that are not about to be looked at anyway
}

func newClaimCache() *claimCache {
	c := &claimCache{byVolume: keys{}, unbound: keys{}, idle: newClaimIndex()}
	c.versions = newVersions(c.index, c.unindex)
	return c
}

func (c *claimCache) index(claim *corev1.PersistentVolumeClaim) {
	if !isUnbound(claim) {
		c.byVolume.add(claim.Spec.VolumeName, keyOf(claim))
		return
	}
	c.unbound.add(storagehelpers.GetPersistentVolumeClaimClass(claim), keyOf(claim))
	c.idle.add(claim)
}

func (c *claimCache) unindex(claim *corev1.PersistentVolumeClaim) {
	if !isUnbound(claim) {
		c.byVolume.remove(claim.Spec.VolumeName, keyOf(claim))
		return
	}
	c.unbound.remove(storagehelpers.GetPersistentVolumeClaimClass(claim), keyOf(claim))
	c.idle.remove(claim)
}

// isUnbound tells whether a claim looks for a volume: it names none and never did.
func isUnbound(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Spec.VolumeName == "" && !isBindCompleted(claim)
}

// volumeCache keeps the volumes, and the pool of those a claim can be matched with.
type volumeCache struct {
	versions[*corev1.PersistentVolume]
	pool *pool
}

func newVolumeCache() *volumeCache {
	c := &volumeCache{pool: newPool()}
	c.versions = newVersions(c.pool.add, c.pool.remove)
	return c
}

// keyOf is an object's key: "namespace/name", or the name alone.
func keyOf(obj metav1.Object) string {
	if ns := obj.GetNamespace(); ns != "" {
		return ns + "/" + obj.GetName()
	}
	return obj.GetName()
}

func keyOfRef(ref *corev1.ObjectReference) string { return ref.Namespace + "/" + ref.Name }

func isBindCompleted(claim *corev1.PersistentVolumeClaim) bool {
	return metav1.HasAnnotation(claim.ObjectMeta, storagehelpers.AnnBindCompleted)
}
