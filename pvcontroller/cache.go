package pvcontroller

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/internal/resourceversion"
)

type object interface {
	metav1.Object
	runtime.Object
}

// A freshness states how a version of an object compares with the stored one.
type freshness int

const (
	older freshness = iota // older than the stored one, which stays
	same                   // the stored one
	newer                  // newer than the stored one, or the first
)

// versions stores the newest known version of each object of one kind: from the informer, or from
// the answer to the controller's own write. Objects are read-only.
//
// Differs: upstream compares resourceVersions only. Here the UID counts too: the answer to a write
// never restores an object that was deleted meanwhile, and never replaces a new object with the
// same name.
//
// Upstream: pkg/controller/volume/persistentvolume storeObjectUpdate (v1.36).
type versions[T object] struct {
	objects map[string]cached[T]
	added   func(T) // these two update the indexes
	removed func(T)
	memory  memory
	part    string // of the memory, followed by a key
}

// A cached is a stored object and its key.
type cached[T object] struct {
	key string
	obj T
}

func newVersions[T object](added, removed func(T)) versions[T] {
	return versions[T]{objects: map[string]cached[T]{}, added: added, removed: removed}
}

// get returns the version stored under a key, or the zero value.
func (v *versions[T]) get(key string) T {
	v.memory.read(v.part, key)
	return v.objects[key].obj
}

// keep is get for a version that the sync keeps while it waits for a call.
func (v *versions[T]) keep(key string) T {
	known, ok := v.objects[key]
	version := ""
	if ok {
		version = known.obj.GetResourceVersion()
	}
	v.memory.keeps(v.part, key, version)
	return known.obj
}

// find returns what is stored under the key of an object. It does not allocate the key.
func (v *versions[T]) find(obj metav1.Object) (cached[T], bool) {
	name := obj.GetName()
	if ns := obj.GetNamespace(); ns != "" {
		known, ok := v.objects[ns+"/"+name]
		return known, ok
	}
	known, ok := v.objects[name]
	return known, ok
}

// key is keyOf, without an allocation if an object is stored under the key.
func (v *versions[T]) key(obj metav1.Object) string {
	if known, ok := v.find(obj); ok {
		return known.key
	}
	return keyOf(obj)
}

// put stores an object from the informer, unless a newer version is stored. An object with another
// UID replaces the stored one, since the deletion in between was not observed. The caller checks
// for that first.
func (v *versions[T]) put(obj T) (freshness, error) {
	known, ok := v.find(obj)
	if !ok {
		known.key = keyOf(obj)
	}
	v.memory.read(v.part, known.key)
	if ok && known.obj.GetUID() == obj.GetUID() {
		c, err := resourceversion.Compare(obj.GetResourceVersion(), known.obj.GetResourceVersion())
		switch {
		case err != nil:
			return older, fmt.Errorf("compare versions of %s: %w", known.key, err)
		case c < 0:
			return older, nil
		case c == 0:
			return same, nil
		}
	}
	v.memory.write(v.part, known.key)
	if ok {
		v.removed(known.obj)
	}
	v.objects[known.key] = cached[T]{known.key, obj}
	v.added(obj)
	return newer, nil
}

// putWritten stores the answer to a write, if the stored object has the same UID and is not newer.
func (v *versions[T]) putWritten(obj T) (freshness, error) {
	known, ok := v.find(obj)
	if !ok || known.obj.GetUID() != obj.GetUID() {
		v.memory.read(v.part, v.memory.keyOf(obj))
		return older, nil
	}
	return v.put(obj)
}

func (v *versions[T]) delete(key string) {
	v.memory.write(v.part, key)
	if known, ok := v.objects[key]; ok {
		v.removed(known.obj)
		delete(v.objects, key)
	}
}

// keys maps a name to its set of keys.
type keys map[string]keySet

// A keySet is a non-empty set of keys. Most have one key.
type keySet struct {
	one  string
	more map[string]struct{} // all keys; nil: only one
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

// A claimCache stores the claims.
type claimCache struct {
	versions[*corev1.PersistentVolumeClaim]
	byVolume keys        // volume name: claims with that spec.volumeName
	unbound  keys        // class: unbound claims
	idle     *claimIndex // unbound claims without a pending sync
}

func newClaimCache(m memory) *claimCache {
	c := &claimCache{byVolume: keys{}, unbound: keys{}, idle: newClaimIndex()}
	c.versions = newVersions(c.index, c.unindex)
	c.memory, c.part = m, partClaim
	return c
}

// namesVolume returns the keys of the claims whose spec.volumeName is name, sorted.
func (c *claimCache) namesVolume(name string) []string {
	c.memory.read(partBoundTo, name)
	return c.byVolume.sorted(name)
}

// unboundOf returns the keys of the unbound claims of a class, sorted.
func (c *claimCache) unboundOf(class string) []string {
	c.memory.read(partUnbound, class)
	return c.unbound.sorted(class)
}

// nextIdle removes the claim that a free volume is offered to from the idle ones, and returns it; nil if
// there is none. after, if not nil, is the claim before it.
func (c *claimCache) nextIdle(volume *corev1.PersistentVolume, after *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	c.memory.read(partIdle, storagehelpers.GetPersistentVolumeClass(volume))
	claim := c.idle.next(volume, after)
	if claim != nil {
		c.removeIdle(claim)
	}
	return claim
}

// addIdle and removeIdle change the set of idle claims. The order of claims makes no difference.
func (c *claimCache) addIdle(claim *corev1.PersistentVolumeClaim) {
	c.memory.add(partIdle, storagehelpers.GetPersistentVolumeClaimClass(claim))
	c.idle.add(claim)
}

func (c *claimCache) removeIdle(claim *corev1.PersistentVolumeClaim) {
	c.memory.add(partIdle, storagehelpers.GetPersistentVolumeClaimClass(claim))
	c.idle.remove(claim)
}

func (c *claimCache) index(claim *corev1.PersistentVolumeClaim) {
	if !isUnbound(claim) {
		c.memory.add(partBoundTo, claim.Spec.VolumeName)
		c.byVolume.add(claim.Spec.VolumeName, c.key(claim))
		return
	}
	class := storagehelpers.GetPersistentVolumeClaimClass(claim)
	c.memory.add(partUnbound, class)
	c.unbound.add(class, c.key(claim))
	c.addIdle(claim)
}

func (c *claimCache) unindex(claim *corev1.PersistentVolumeClaim) {
	if !isUnbound(claim) {
		c.memory.add(partBoundTo, claim.Spec.VolumeName)
		c.byVolume.remove(claim.Spec.VolumeName, c.key(claim))
		return
	}
	class := storagehelpers.GetPersistentVolumeClaimClass(claim)
	c.memory.add(partUnbound, class)
	c.unbound.remove(class, c.key(claim))
	c.removeIdle(claim)
}

// isUnbound reports whether a claim waits for a volume: it names none and never named one.
func isUnbound(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Spec.VolumeName == "" && !isBindCompleted(claim)
}

// A volumeCache stores the volumes, and the pool of volumes that a claim can be matched with.
type volumeCache struct {
	versions[*corev1.PersistentVolume]
	pool *pool
}

func newVolumeCache(m memory) *volumeCache {
	c := &volumeCache{pool: newPool()}
	c.versions = newVersions(c.index, c.unindex)
	c.memory, c.part = m, partVolume
	return c
}

func (c *volumeCache) index(volume *corev1.PersistentVolume) {
	c.touchPool(volume)
	c.pool.add(volume)
}

func (c *volumeCache) unindex(volume *corev1.PersistentVolume) {
	c.touchPool(volume)
	c.pool.remove(volume)
}

// touchPool says that the running step adds a volume to the pool, or removes it. The order of volumes makes
// no difference.
func (c *volumeCache) touchPool(volume *corev1.PersistentVolume) {
	c.memory.add(partModes, "")
	if ref := volume.Spec.ClaimRef; ref != nil {
		c.memory.add(partReserved, keyOfRef(ref))
	} else {
		c.memory.add(partFree, storagehelpers.GetPersistentVolumeClass(volume))
	}
}

// match is pool.match.
func (c *volumeCache) match(claim *corev1.PersistentVolumeClaim, delayed bool) (*corev1.PersistentVolume, error) {
	if claim.Spec.Selector != nil {
		c.memory.read(partModes, "")
	}
	c.memory.read(partReserved, c.memory.keyOf(claim))
	if !delayed {
		c.memory.read(partFree, storagehelpers.GetPersistentVolumeClaimClass(claim))
	}
	volume, err := c.pool.match(claim, delayed)
	version := ""
	if volume != nil {
		version = volume.ResourceVersion
	}
	c.memory.keeps(partMatched, "", version)
	return volume, err
}

// reservedFor is pool.reservedFor.
func (c *volumeCache) reservedFor(key string) []*corev1.PersistentVolume {
	c.memory.read(partReserved, key)
	return c.pool.reservedFor(key)
}

// keyOf returns an object's key: "namespace/name", or "name".
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
