package pvcontroller

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/tidwall/btree"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
)

// modeSet is a set of access modes.
type modeSet uint8

const (
	modeRWO modeSet = 1 << iota
	modeROX
	modeRWX
	modeRWOP
	modeOther // none that a volume is known to have
)

// modeSets lists all sets of known access modes in the order in which they are searched: fewest modes first.
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

// shape is what must be equal, or nearly so, between a claim and a free volume.
type shape struct {
	modes      modeSet
	class      string
	volumeMode corev1.PersistentVolumeMode
	attributes string // volumeAttributesClassName
}

// candidate is a free volume in its place: by capacity, then by name.
type candidate struct {
	capacity resource.Quantity
	name     string
	volume   *corev1.PersistentVolume
}

func lessCandidate(a, b candidate) bool {
	if c := a.capacity.Cmp(b.capacity); c != 0 {
		return c < 0
	}
	return a.name < b.name
}

// pool holds volumes by what a claim can ask for. It is a value without ties to the rest of the controller.
//
// Differs: upstream walks all volumes of a mode set for each claim, free or not, and among volumes of equal capacity
// takes whichever its map yields first. Here the free ones of a shape are sorted by capacity, and ties come out by name.
//
// Upstream: pkg/controller/volume/persistentvolume persistentVolumeOrderedIndex (v1.36), and component-helpers
// storage/volume FindMatchingVolume.
type pool struct {
	free     map[shape]*btree.BTreeG[candidate]
	reserved map[string]map[string]*corev1.PersistentVolume // claim key, volume name: claimRef names the claim
	count    [modeOther]int                                 // of volumes with these modes
}

func newPool() *pool {
	return &pool{
		free:     map[shape]*btree.BTreeG[candidate]{},
		reserved: map[string]map[string]*corev1.PersistentVolume{},
	}
}

// add puts a volume into the pool; one of that name must not be in it.
func (p *pool) add(volume *corev1.PersistentVolume) {
	s := shapeOf(volume)
	p.count[s.modes]++
	if ref := volume.Spec.ClaimRef; ref != nil {
		byName := p.reserved[keyOfRef(ref)]
		if byName == nil {
			byName = map[string]*corev1.PersistentVolume{}
			p.reserved[keyOfRef(ref)] = byName
		}
		byName[volume.Name] = volume
		return
	}
	if !isFree(volume) {
		return
	}
	tree := p.free[s]
	if tree == nil {
		tree = btree.NewBTreeGOptions(lessCandidate, btree.Options{NoLocks: true})
		p.free[s] = tree
	}
	tree.Set(candidateOf(volume))
}

// remove takes out a volume, given as it was added.
func (p *pool) remove(volume *corev1.PersistentVolume) {
	s := shapeOf(volume)
	p.count[s.modes]--
	if ref := volume.Spec.ClaimRef; ref != nil {
		byName := p.reserved[keyOfRef(ref)]
		delete(byName, volume.Name)
		if len(byName) == 0 {
			delete(p.reserved, keyOfRef(ref))
		}
		return
	}
	if tree := p.free[s]; tree != nil {
		tree.Delete(candidateOf(volume))
		if tree.Len() == 0 {
			delete(p.free, s)
		}
	}
}

// match finds the volume for a claim that names none. Mode sets that hold all the claim's modes are tried one after the
// other, fewest modes first. In each, a volume reserved for the claim comes first, then the smallest free one that is
// large enough and meets the selector; ties go by name. With delayed binding only a reserved one will do, since the
// scheduler chooses among the free. nil means there is none. The error is that of a selector that makes no sense.
//
// Upstream: pkg/controller/volume/persistentvolume findBestMatchForClaim (v1.36).
func (p *pool) match(claim *corev1.PersistentVolumeClaim, delayed bool) (*corev1.PersistentVolume, error) {
	selector, err := selectorOf(claim)
	if err != nil {
		return nil, err
	}
	want := modesOf(claim.Spec.AccessModes)
	for _, modes := range modeSets {
		if p.count[modes] == 0 || modes&want != want {
			continue
		}
		if volume := p.reservedWith(claim, modes); volume != nil {
			return volume, nil
		}
		if delayed {
			continue
		}
		if volume := p.smallest(claim, modes, selector); volume != nil {
			return volume, nil
		}
	}
	return nil, nil
}

// reservedWith finds the first volume by name that has exactly these modes and is reserved for the claim, which it must
// suit but for class and selector.
func (p *pool) reservedWith(claim *corev1.PersistentVolumeClaim, modes modeSet) *corev1.PersistentVolume {
	need := needOf(claim)
	for _, volume := range p.reservedFor(keyOf(claim)) {
		s, capacity := shapeOf(volume), volume.Spec.Capacity[corev1.ResourceStorage]
		if s.modes == modes && s.volumeMode == need.volumeMode && s.attributes == need.attributes &&
			capacity.Cmp(requestOf(claim)) >= 0 && volume.DeletionTimestamp == nil &&
			storagehelpers.IsVolumeBoundToClaim(volume, claim) {
			return volume
		}
	}
	return nil
}

func (p *pool) smallest(claim *corev1.PersistentVolumeClaim, modes modeSet, selector labels.Selector) *corev1.PersistentVolume {
	need := needOf(claim)
	need.modes = modes
	tree := p.free[need]
	if tree == nil {
		return nil
	}
	var found *corev1.PersistentVolume
	tree.Ascend(candidate{capacity: requestOf(claim)}, func(c candidate) bool {
		if selector.Matches(labels.Set(c.volume.Labels)) {
			found = c.volume
		}
		return found == nil
	})
	return found
}

// reservedFor returns the volumes whose claimRef names the claim of that key, whatever UID it gives, sorted by name.
func (p *pool) reservedFor(key string) []*corev1.PersistentVolume {
	byName := p.reserved[key]
	if len(byName) == 0 {
		return nil
	}
	volumes := make([]*corev1.PersistentVolume, 0, len(byName))
	for _, volume := range byName {
		volumes = append(volumes, volume)
	}
	slices.SortFunc(volumes, func(a, b *corev1.PersistentVolume) int { return strings.Compare(a.Name, b.Name) })
	return volumes
}

// isFree tells whether a volume may be given to any claim that it suits.
func isFree(volume *corev1.PersistentVolume) bool {
	return volume.Spec.ClaimRef == nil && volume.Status.Phase == corev1.VolumeAvailable && volume.DeletionTimestamp == nil
}

func shapeOf(volume *corev1.PersistentVolume) shape {
	return shape{
		modes:      modesOf(volume.Spec.AccessModes) &^ modeOther,
		class:      storagehelpers.GetPersistentVolumeClass(volume),
		volumeMode: volumeModeOf(volume.Spec.VolumeMode),
		attributes: ptr.Deref(volume.Spec.VolumeAttributesClassName, ""),
	}
}

func candidateOf(volume *corev1.PersistentVolume) candidate {
	return candidate{capacity: volume.Spec.Capacity[corev1.ResourceStorage], name: volume.Name, volume: volume}
}

func volumeModeOf(mode *corev1.PersistentVolumeMode) corev1.PersistentVolumeMode {
	return ptr.Deref(mode, corev1.PersistentVolumeFilesystem)
}

func requestOf(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	return claim.Spec.Resources.Requests[corev1.ResourceStorage]
}

func selectorOf(claim *corev1.PersistentVolumeClaim) (labels.Selector, error) {
	if claim.Spec.Selector == nil {
		return labels.Everything(), nil
	}
	selector, err := metav1.LabelSelectorAsSelector(claim.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("selector of claim %s: %w", keyOf(claim), err)
	}
	return selector, nil
}
