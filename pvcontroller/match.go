package pvcontroller

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
)

// A modeSet is a set of access modes.
type modeSet uint8

const (
	modeRWO modeSet = 1 << iota
	modeROX
	modeRWX
	modeRWOP
	modeOther // any other mode
)

// modeSets lists all sets of known access modes in search order: fewest modes first.
var modeSets = func() []modeSet {
	sets := make([]modeSet, 0, modeOther)
	for m := range modeOther {
		sets = append(sets, m)
	}
	slices.SortStableFunc(sets, func(a, b modeSet) int {
		return bits.OnesCount8(uint8(a)) - bits.OnesCount8(uint8(b))
	})
	return sets
}()

func modesOf(modes []corev1.PersistentVolumeAccessMode) modeSet {
	var set modeSet
	for _, m := range modes {
		switch m {
		case corev1.ReadWriteOnce:
			set |= modeRWO
		case corev1.ReadOnlyMany:
			set |= modeROX
		case corev1.ReadWriteMany:
			set |= modeRWX
		case corev1.ReadWriteOncePod:
			set |= modeRWOP
		default:
			set |= modeOther
		}
	}
	return set
}

// A shape holds the fields that must be equal between a claim and a free volume.
type shape struct {
	class      string
	volumeMode corev1.PersistentVolumeMode
	attributes string // volumeAttributesClassName
}

// A pool indexes volumes by everything that a claim can request. It does not depend on the rest of
// the controller.
//
// Matching a claim, adding a volume and removing one take time logarithmic in the number of
// volumes. This includes claims with selectors, even on several labels, once selectors of the same
// form (see form) have skipped as many free volumes of the shape as exist. Before that, and if more
// than postingsMax forms take turns, a match skips large enough volumes that are not selected; see
// freeSet. A volume takes an entry of about 30 bytes, and one of about 40 bytes in each posting.
//
// Differs: for each claim upstream scans all volumes of a mode set, free or not. Among volumes of
// equal capacity, and among mode sets of equal size, it takes the first in map order. Here the free
// volumes of a shape are sorted by capacity, then name, and mode sets have the order of modeSets.
//
// Upstream: pkg/controller/volume/persistentvolume persistentVolumeOrderedIndex (v1.36), and
// component-helpers storage/volume FindMatchingVolume.
type pool struct {
	free     map[shape]*[modeOther]*freeSet                      // by modes; nil: none is free
	reserved map[types.NamespacedName][]*corev1.PersistentVolume // by the claim in claimRef; sorted by name
	count    [modeOther]int                                      // number of volumes with these modes
}

func newPool() *pool {
	return &pool{
		free:     map[shape]*[modeOther]*freeSet{},
		reserved: map[types.NamespacedName][]*corev1.PersistentVolume{},
	}
}

// add adds a volume. The pool must not contain a volume of that name.
func (p *pool) add(volume *corev1.PersistentVolume) {
	modes := knownModesOf(volume)
	p.count[modes]++
	if ref := volume.Spec.ClaimRef; ref != nil {
		p.reserve(nameInRef(ref), volume)
		return
	}
	if !isFree(volume) {
		return
	}
	s := shapeOf(volume)
	shelves := p.free[s]
	if shelves == nil {
		shelves = &[modeOther]*freeSet{}
		p.free[s] = shelves
	}
	if shelves[modes] == nil {
		shelves[modes] = newFreeSet()
	}
	shelves[modes].add(volume)
}

// remove removes a volume, passed as it was added.
func (p *pool) remove(volume *corev1.PersistentVolume) {
	modes := knownModesOf(volume)
	p.count[modes]--
	if ref := volume.Spec.ClaimRef; ref != nil {
		p.unreserve(nameInRef(ref), volume)
		return
	}
	if !isFree(volume) {
		return
	}
	s := shapeOf(volume)
	shelves := p.free[s]
	shelves[modes].remove(volume)
	if shelves[modes].all.Len() > 0 {
		return
	}
	shelves[modes] = nil
	if *shelves == ([modeOther]*freeSet{}) {
		delete(p.free, s)
	}
}

func (p *pool) reserve(claim types.NamespacedName, volume *corev1.PersistentVolume) {
	volumes := p.reserved[claim]
	i, _ := slices.BinarySearchFunc(volumes, volume, byName)
	p.reserved[claim] = slices.Insert(volumes, i, volume)
}

func (p *pool) unreserve(claim types.NamespacedName, volume *corev1.PersistentVolume) {
	volumes := p.reserved[claim]
	if len(volumes) == 1 {
		delete(p.reserved, claim)
		return
	}
	i, _ := slices.BinarySearchFunc(volumes, volume, byName)
	p.reserved[claim] = slices.Delete(volumes, i, i+1)
}

func byName(a, b *corev1.PersistentVolume) int { return strings.Compare(a.Name, b.Name) }

// match returns the volume for a claim that names none, or nil. It tries the mode sets that contain
// all the claim's modes, fewest modes first. In each, a volume reserved for the claim comes first,
// then the smallest free one that is large enough and meets the selector, then the first by name.
// With delayed binding only a reserved volume matches, since the scheduler assigns free ones. An
// invalid selector is an error only if there are volumes with the claim's modes.
//
// Upstream: pkg/controller/volume/persistentvolume findBestMatchForClaim (v1.36).
func (p *pool) match(claim *corev1.PersistentVolumeClaim, delayed bool) (*corev1.PersistentVolume, error) {
	want := modesOf(claim.Spec.AccessModes)
	if !p.holds(want) {
		return nil, nil
	}
	q, err := queryOf(claim.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("selector of claim %s: %w", keyOf(claim), err)
	}
	reserved := p.reserved[types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}]
	var shelves [modeOther]*freeSet
	if free := p.free[needOf(claim)]; free != nil && !delayed {
		shelves = *free
	}
	from := candidateOfSize(requestOf(claim))
	for _, modes := range modeSets {
		if modes&want != want {
			continue
		}
		if volume := reservedWith(reserved, claim, modes); volume != nil {
			return volume, nil
		}
		if shelves[modes] == nil {
			continue
		}
		if volume := shelves[modes].smallest(from, &q); volume != nil {
			return volume, nil
		}
	}
	return nil, nil
}

// holds reports whether any volume has at least these modes.
func (p *pool) holds(want modeSet) bool {
	for _, modes := range modeSets {
		if modes&want == want && p.count[modes] > 0 {
			return true
		}
	}
	return false
}

// reservedWith returns the first volume that has exactly these modes, is reserved for the claim,
// and suits it. Class and selector are ignored.
func reservedWith(
	volumes []*corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim, modes modeSet,
) *corev1.PersistentVolume {
	need := needOf(claim)
	for _, volume := range volumes {
		s, capacity := shapeOf(volume), capacityOf(volume)
		if knownModesOf(volume) == modes && s.volumeMode == need.volumeMode && s.attributes == need.attributes &&
			capacity.Cmp(requestOf(claim)) >= 0 && volume.DeletionTimestamp == nil &&
			storagehelpers.IsVolumeBoundToClaim(volume, claim) {
			return volume
		}
	}
	return nil
}

// reservedFor returns the volumes whose claimRef names the claim of that key, with any UID, sorted
// by name. The slice belongs to the pool: it is read-only and valid until the next change.
func (p *pool) reservedFor(key string) []*corev1.PersistentVolume {
	namespace, name, _ := strings.Cut(key, "/")
	return p.reserved[types.NamespacedName{Namespace: namespace, Name: name}]
}

// isFree reports whether a volume can be bound to any suitable claim.
func isFree(volume *corev1.PersistentVolume) bool {
	return volume.Spec.ClaimRef == nil && volume.Status.Phase == corev1.VolumeAvailable &&
		volume.DeletionTimestamp == nil
}

func shapeOf(volume *corev1.PersistentVolume) shape {
	return shape{
		class:      storagehelpers.GetPersistentVolumeClass(volume),
		volumeMode: volumeModeOf(volume.Spec.VolumeMode),
		attributes: ptr.Deref(volume.Spec.VolumeAttributesClassName, ""),
	}
}

// needOf returns the shape of the volumes that suit a claim.
func needOf(claim *corev1.PersistentVolumeClaim) shape {
	return shape{
		class:      storagehelpers.GetPersistentVolumeClaimClass(claim),
		volumeMode: volumeModeOf(claim.Spec.VolumeMode),
		attributes: ptr.Deref(claim.Spec.VolumeAttributesClassName, ""),
	}
}

func volumeModeOf(mode *corev1.PersistentVolumeMode) corev1.PersistentVolumeMode {
	return ptr.Deref(mode, corev1.PersistentVolumeFilesystem)
}

// knownModesOf returns the volume's modes without unknown ones, which no claim can match.
func knownModesOf(volume *corev1.PersistentVolume) modeSet {
	return modesOf(volume.Spec.AccessModes) &^ modeOther
}

func capacityOf(volume *corev1.PersistentVolume) resource.Quantity {
	return volume.Spec.Capacity[corev1.ResourceStorage]
}

func requestOf(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	return claim.Spec.Resources.Requests[corev1.ResourceStorage]
}

func nameInRef(ref *corev1.ObjectReference) types.NamespacedName {
	return types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
}
