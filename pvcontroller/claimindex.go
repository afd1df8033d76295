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

// An indexedClaim is an unbound claim in its sort position: by bucket, then the largest request
// first, then by namespace and name.
type indexedClaim struct {
	bucket uint64
	size   size
	claim  *corev1.PersistentVolumeClaim
}

func indexedClaimAt(bucket uint64, claim *corev1.PersistentVolumeClaim) indexedClaim {
	return indexedClaim{bucket: bucket, size: sizeOf(requestOf(claim)), claim: claim}
}

// indexedClaimOfSize sorts before all claims that request q, and after all that request more.
func indexedClaimOfSize(q resource.Quantity) indexedClaim {
	s := indexedClaim{size: sizeOf(q), claim: namelessClaim}
	if !s.size.isExact() {
		s.claim = &corev1.PersistentVolumeClaim{}
		s.claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: q}
	}
	return s
}

// namelessClaim sorts before all claims with an equal request.
var namelessClaim = &corev1.PersistentVolumeClaim{}

// before reports whether one claim is offered a volume before another. Buckets are ignored.
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

// A claimGroup holds claims that request the same shape, the same access modes and a selector of
// the same form.
type claimGroup struct {
	form
	modes modeSet
	tree  *btree.BTreeG[indexedClaim]
}

func (c *claimGroup) compare(other *claimGroup) int {
	return cmp.Or(cmp.Compare(c.modes, other.modes), strings.Compare(c.text, other.text))
}

// A claimIndex holds the unbound claims without a pending sync. It is for claims what pool is for
// volumes: a volume that becomes free is not offered to all of them.
//
// Finding the next claim for a volume takes time logarithmic in the number of claims, for each set
// of access modes and each form of selector among the claims of the volume's shape. The number of
// requested values does not matter. Forms that differ from claim to claim, for example with a
// different NotIn each, are searched one by one.
type claimIndex struct {
	groups map[shape][]*claimGroup // sorted
}

func newClaimIndex() *claimIndex { return &claimIndex{groups: map[shape][]*claimGroup{}} }

// add adds a claim; it may be present already. A claim with an invalid selector is left out, since
// no volume suits it.
func (s *claimIndex) add(claim *corev1.PersistentVolumeClaim) {
	c, buckets := claimGroupOf(claim)
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
	for _, bucket := range buckets {
		c.tree.Set(indexedClaimAt(bucket, claim))
	}
}

// remove removes a claim, passed as it was added; it may be absent already.
func (s *claimIndex) remove(claim *corev1.PersistentVolumeClaim) {
	c, buckets := claimGroupOf(claim)
	if c == nil {
		return
	}
	need := needOf(claim)
	i, found := slices.BinarySearchFunc(s.groups[need], c, (*claimGroup).compare)
	if !found {
		return
	}
	c = s.groups[need][i]
	for _, bucket := range buckets {
		c.tree.Delete(indexedClaimAt(bucket, claim))
	}
	if c.tree.Len() > 0 {
		return
	}
	s.groups[need] = slices.Delete(s.groups[need], i, i+1)
	if len(s.groups[need]) == 0 {
		delete(s.groups, need)
	}
}

// claimGroupOf returns an empty group with the claim's properties, and the claim's buckets in it.
// It returns nil for an invalid selector.
func claimGroupOf(claim *corev1.PersistentVolumeClaim) (*claimGroup, []uint64) {
	q, err := queryOf(claim.Spec.Selector)
	if err != nil {
		return nil, nil
	}
	return &claimGroup{form: q.form, modes: modesOf(claim.Spec.AccessModes)}, q.buckets
}

// next returns the claim for a free volume: of those that it suits, the one with the largest
// request, then the first by namespace and name. If after is not nil, next returns the claim that
// follows it. It returns nil if there is none.
func (s *claimIndex) next(
	volume *corev1.PersistentVolume, after *corev1.PersistentVolumeClaim,
) *corev1.PersistentVolumeClaim {
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

// next returns the first claim after from that selects the volume. It skips claims that share the
// volume's bucket through a hash collision.
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
