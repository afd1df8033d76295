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

// seeker is a claim that looks for a volume, in its place: among the volumes that its selector selects, the largest
// request first, then by namespace and name.
type seeker struct {
	place uint64
	size  size
	claim *corev1.PersistentVolumeClaim
}

func seekerAt(place uint64, claim *corev1.PersistentVolumeClaim) seeker {
	return seeker{place: place, size: sizeOf(requestOf(claim)), claim: claim}
}

// seekerOfSize comes before all claims that ask for as much, and after all that ask for more.
func seekerOfSize(q resource.Quantity) seeker {
	s := seeker{size: sizeOf(q), claim: namelessClaim}
	if !s.size.isExact() {
		s.claim = &corev1.PersistentVolumeClaim{}
		s.claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: q}
	}
	return s
}

// namelessClaim comes before all claims that ask for as much.
var namelessClaim = &corev1.PersistentVolumeClaim{}

// before tells whether one claim is to be asked before another, wherever they stand.
func (s seeker) before(other seeker) bool {
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

func lessSeeker(a, b seeker) bool {
	if a.place != b.place {
		return a.place < b.place
	}
	return a.before(b)
}

// crowd is claims that ask for the same shape of volume, with the same access modes and a selector of the same form.
type crowd struct {
	form
	modes modeSet
	tree  *btree.BTreeG[seeker]
}

func (c *crowd) compare(other *crowd) int {
	return cmp.Or(cmp.Compare(c.modes, other.modes), strings.Compare(c.text, other.text))
}

// seekers holds claims that look for a volume and rest: no sync of theirs is due. It is to claims what pool is to volumes,
// so that a volume that becomes free need not be offered to all of them.
//
// To find the next claim for a volume takes, for each set of access modes and each form of selector among the claims of the
// volume's shape, a time that grows with the logarithm of their number. So it does not matter how many claims there are, nor
// how many values their selectors ask for. Forms that differ from claim to claim, as they do when each has a
// NotIn of its own, are gone through one by one.
type seekers struct {
	resting map[shape][]*crowd // sorted
}

func newSeekers() *seekers { return &seekers{resting: map[shape][]*crowd{}} }

// add puts a claim among those that rest; it may be there already. A claim whose selector makes no sense
// is left out, since nothing suits it.
func (s *seekers) add(claim *corev1.PersistentVolumeClaim) {
	c, places := crowdOf(claim)
	if c == nil {
		return
	}
	need := needOf(claim)
	i, found := slices.BinarySearchFunc(s.resting[need], c, (*crowd).compare)
	if found {
		c = s.resting[need][i]
	} else {
		c.tree = btree.NewBTreeGOptions(lessSeeker, btree.Options{NoLocks: true})
		s.resting[need] = slices.Insert(s.resting[need], i, c)
	}
	for _, place := range places {
		c.tree.Set(seekerAt(place, claim))
	}
}

// remove takes out a claim, given as it was added; it may be out already.
func (s *seekers) remove(claim *corev1.PersistentVolumeClaim) {
	c, places := crowdOf(claim)
	if c == nil {
		return
	}
	need := needOf(claim)
	i, found := slices.BinarySearchFunc(s.resting[need], c, (*crowd).compare)
	if !found {
		return
	}
	c = s.resting[need][i]
	for _, place := range places {
		c.tree.Delete(seekerAt(place, claim))
	}
	if c.tree.Len() > 0 {
		return
	}
	s.resting[need] = slices.Delete(s.resting[need], i, i+1)
	if len(s.resting[need]) == 0 {
		delete(s.resting, need)
	}
}

// crowdOf returns the crowd of a claim, without the others, and the places where it stands in it; nil: in none.
func crowdOf(claim *corev1.PersistentVolumeClaim) (*crowd, []uint64) {
	q, err := queryOf(claim.Spec.Selector)
	if err != nil {
		return nil, nil
	}
	return &crowd{form: q.form, modes: modesOf(claim.Spec.AccessModes)}, q.places
}

// next finds the claim for a free volume: of those it suits, the one that asks for most, ties by namespace and name. after,
// if not nil, is the claim that came before; next finds the one that follows it. nil means there is none.
func (s *seekers) next(volume *corev1.PersistentVolume, after *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	crowds := s.resting[shapeOf(volume)]
	if len(crowds) == 0 {
		return nil
	}
	from := seekerOfSize(capacityOf(volume))
	if after != nil && from.before(seekerAt(0, after)) {
		from = seekerAt(0, after)
	}
	modes := knownModesOf(volume)
	var best seeker
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
func (c *crowd) next(volume *corev1.PersistentVolume, from seeker) seeker {
	var ok bool
	if from.place, ok = c.place(volume.Labels); !ok {
		return seeker{}
	}
	var found seeker
	c.tree.Ascend(from, func(one seeker) bool {
		if one.place != from.place {
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
