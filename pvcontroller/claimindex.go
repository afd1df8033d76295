package pvcontroller

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tidwall/btree"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
)

// indexedClaim is a claim that looks for a volume, in its place: among the volumes that its selector selects, the largest
// request first, then by namespace and name.
type indexedClaim struct {
	bucket uint64
	size   size
	claim  *corev1.PersistentVolumeClaim
}

func indexedClaimAt(place uint64, claim *corev1.PersistentVolumeClaim) indexedClaim {
	return indexedClaim{bucket: place, size: sizeOf(requestOf(claim)), claim: claim}
}

// indexedClaimOfSize comes before all claims that ask for as much, and after all that ask for more.
func indexedClaimOfSize(q resource.Quantity) indexedClaim {
	s := indexedClaim{size: sizeOf(q), claim: namelessClaim}
	if !s.size.isExact() {
		s.claim = &corev1.PersistentVolumeClaim{}
		s.claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: q}
	}
	return s
}

// namelessClaim comes before all claims that ask for as much.
var namelessClaim = &corev1.PersistentVolumeClaim{}

// before tells whether one claim is to be asked before another, wherever they stand.
func (s indexedClaim) before(other indexedClaim) bool {
	if s.size != other.size {
		return s.size > other.size
	}
	if !s.size.isExact() {
		x, y := requestOf(s.claim), requestOf(other.claim)
		if c := x.Cmp(y); c != 0 {
			return c > 0
		}
	}
	if s.claim.Namespace != other.claim.Namespace {
		return s.claim.Namespace < other.claim.Namespace
	}
	return s.claim.Name < other.claim.Name
}

func lessIndexedClaim(a, b indexedClaim) bool {
	if a.bucket != b.bucket {
		return a.bucket < b.bucket
	}
	return a.before(b)
}

// claimGroup is claims that ask for the same shape of volume, with the same access modes and a selector of the same form.
type claimGroup struct {
	form
	modes modeSet
	tree  *btree.BTreeG[indexedClaim]
}

func (c *claimGroup) compare(other *claimGroup) int {
	return cmp.Or(cmp.Compare(c.modes, other.modes), strings.Compare(c.text, other.text))
}

// claimIndex holds claims that look for a volume and rest: no sync of theirs is due. It is to claims what pool is to volumes,
// so that a volume that becomes free need not be offered to all of them.
//
// To find the next claim for a volume takes, for each set of access modes and each form of selector among the claims of the
// volume's shape, a time that grows with the logarithm of their number. So it does not matter how many claims there are, nor
// how many values their selectors ask for. Forms that differ from claim to claim, as they do when each has a
// NotIn of its own, are gone through one by one.
type claimIndex struct {
	groups map[shape][]*claimGroup // sorted
}

func newClaimIndex() *claimIndex { return &claimIndex{groups: map[shape][]*claimGroup{}} }

// add puts a claim among those that rest; it may be there already. A claim whose selector makes no sense
// is left out, since nothing suits it.
func (s *claimIndex) add(claim *corev1.PersistentVolumeClaim) {
	c, places := claimGroupOf(claim)
	if c == nil {
		return
	}
	need := needOf(claim)
	i, found := slices.BinarySearchFunc(s.groups[need], c, (*claimGroup).compare)
	if found {
		c = s.groups[need][i]
	} else {
		c.tree = btree.NewBTreeGOptions(lessIndexedClaim, btree.Options{NoLocks: true})
		s.groups[need] = slices.Insert(s.groups[need], i, c)
	}
	for _, place := range places {
		c.tree.Set(indexedClaimAt(place, claim))
	}
}

// remove takes out a claim, given as it was added; it may be out already.
func (s *claimIndex) remove(claim *corev1.PersistentVolumeClaim) {
	c, places := claimGroupOf(claim)
	if c == nil {
		return
	}
	need := needOf(claim)
	i, found := slices.BinarySearchFunc(s.groups[need], c, (*claimGroup).compare)
	if !found {
		return
	}
	c = s.groups[need][i]
	for _, place := range places {
		c.tree.Delete(indexedClaimAt(place, claim))
	}
	if c.tree.Len() > 0 {
		return
	}
	s.groups[need] = slices.Delete(s.groups[need], i, i+1)
	if len(s.groups[need]) == 0 {
		delete(s.groups, need)
	}
}

// claimGroupOf returns the crowd of a claim, without the others, and the places where it stands in it; nil: in none.
func claimGroupOf(claim *corev1.PersistentVolumeClaim) (*claimGroup, []uint64) {
	q, err := queryOf(claim.Spec.Selector)
	if err != nil {
		return nil, nil
	}
	return &claimGroup{form: q.form, modes: modesOf(claim.Spec.AccessModes)}, q.buckets
}

// next finds the claim for a free volume: of those it suits, the one that asks for most, ties by namespace and name. after,
// if not nil, is the claim that came before; next finds the one that follows it. nil means there is none.
func (s *claimIndex) next(volume *corev1.PersistentVolume, after *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	crowds := s.groups[shapeOf(volume)]
	if len(crowds) == 0 {
		return nil
	}
	from := indexedClaimOfSize(capacityOf(volume))
	if after != nil && from.before(indexedClaimAt(0, after)) {
		from = indexedClaimAt(0, after)
	}
	modes := knownModesOf(volume)
	var best indexedClaim
	for _, c := range crowds {
		if c.modes&modes != c.modes {
			continue
		}
		if one := c.next(volume, from); one.claim != nil && (best.claim == nil || one.before(best)) {
			best = one
		}
	}
	return best.claim
}

// next finds the first claim that comes after another and selects the volume. It passes over claims that stand in the
// volume's place by chance.
func (c *claimGroup) next(volume *corev1.PersistentVolume, from indexedClaim) indexedClaim {
	var ok bool
	if from.bucket, ok = c.bucket(volume.Labels); !ok {
		return indexedClaim{}
	}
	var found indexedClaim
	c.tree.Ascend(from, func(one indexedClaim) bool {
		if one.bucket != from.bucket {
			return false
		}
		if from.before(one) && selects(one.claim, volume) {
			found = one
		}
		return found.claim == nil
	})
	return found
}

func selects(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) bool {
	if claim.Spec.Selector == nil {
		return true
	}
	q, err := queryOf(claim.Spec.Selector)
	return err == nil && q.selector.Matches(labels.Set(volume.Labels))
}
