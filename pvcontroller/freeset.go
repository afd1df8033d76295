package pvcontroller

import (
	"slices"

	"github.com/tidwall/btree"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
)

// candidate is a free volume in its place: by capacity, then by name.
type candidate struct {
	size   size
	volume *corev1.PersistentVolume
}

func candidateOf(volume *corev1.PersistentVolume) candidate {
	return candidate{size: sizeOf(capacityOf(volume)), volume: volume}
}

// candidateOfSize comes before all volumes of that capacity and after all smaller ones.
func candidateOfSize(q resource.Quantity) candidate {
	c := candidate{size: sizeOf(q), volume: namelessVolume}
	if !c.size.isExact() {
		c.volume = &corev1.PersistentVolume{}
		c.volume.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: q}
	}
	return c
}

// namelessVolume comes before all volumes of its size.
var namelessVolume = &corev1.PersistentVolume{}

func lessCandidate(a, b candidate) bool {
	if a.size != b.size {
		return a.size < b.size
	}
	if !a.size.isExact() {
		x, y := capacityOf(a.volume), capacityOf(b.volume)
		if c := x.Cmp(y); c != 0 {
			return c < 0
		}
	}
	return a.volume.Name < b.volume.Name
}

// freeSet holds the free volumes that differ in nothing a claim can ask for but capacity and labels. For forms of selector that
// it is asked for it has postings: the same volumes over again, those that the form leaves out excepted, sorted by the values
// of their labels first. So a selector of such a form finds its smallest volume at once, however many others there are.
// Volumes come into a posting and go as they come into the shelf and go.
//
// A posting costs as much to make as a walk past all volumes, or a few, and is made when the walks for its form have passed over as many
// volumes as there are. So forms that are asked for once, or that find what they want at once, have none.
type freeSet struct {
	all      *btree.BTreeG[candidate]
	postings []*posting // asked for last comes first
}

// postingsMax bounds the postings of a shelf. One more, and the one that was not asked for the longest is dropped.
const postingsMax = 16

func newFreeSet() *freeSet {
	return &freeSet{all: btree.NewBTreeGOptions(lessCandidate, btree.Options{NoLocks: true})}
}

func (s *freeSet) add(volume *corev1.PersistentVolume) {
	c := candidateOf(volume)
	s.all.Set(c)
	for _, p := range s.postings {
		p.add(c)
	}
}

func (s *freeSet) remove(volume *corev1.PersistentVolume) {
	c := candidateOf(volume)
	s.all.Delete(c)
	for _, p := range s.postings {
		p.remove(c)
	}
}

// smallest finds the smallest volume from a size on that the query selects, ties by name. nil means there is none.
func (s *freeSet) smallest(from candidate, q *query) *corev1.PersistentVolume {
	if q.isEverything() {
		return firstFrom(s.all, from)
	}
	p := s.posting(q.form)
	if p.tree != nil {
		return p.smallest(from, q)
	}
	found, passed := s.walk(from, q)
	p.passed += passed
	if p.passed >= s.all.Len() {
		p.fill(s.all)
	}
	return found
}

// walk finds what smallest finds, and tells how many volumes it passed over.
func (s *freeSet) walk(from candidate, q *query) (found *corev1.PersistentVolume, passed int) {
	s.all.Ascend(from, func(c candidate) bool {
		if q.selector.Matches(labels.Set(c.volume.Labels)) {
			found = c.volume
			return false
		}
		passed++
		return true
	})
	return found, passed
}

func firstFrom(tree *btree.BTreeG[candidate], from candidate) *corev1.PersistentVolume {
	var found *corev1.PersistentVolume
	tree.Ascend(from, func(c candidate) bool {
		found = c.volume
		return false
	})
	return found
}

// posting returns the posting of a form; an unmade one if the form was not asked for before, or too long ago.
func (s *freeSet) posting(f form) *posting {
	i := slices.IndexFunc(s.postings, func(p *posting) bool { return p.text == f.text })
	var p *posting
	if i >= 0 {
		p = s.postings[i]
		s.postings = slices.Delete(s.postings, i, i+1)
	} else {
		p = &posting{form: f}
		s.postings = s.postings[:min(len(s.postings), postingsMax-1)]
	}
	s.postings = slices.Insert(s.postings, 0, p)
	return p
}

// posting holds volumes by the place that their labels have in a form.
type posting struct {
	form
	tree   *btree.BTreeG[posted] // nil: not made yet
	passed int                   // how many volumes were passed over for want of it
}

// posted is a volume in a posting.
type posted struct {
	bucket uint64
	candidate
}

func lessPosted(a, b posted) bool {
	if a.bucket != b.bucket {
		return a.bucket < b.bucket
	}
	return lessCandidate(a.candidate, b.candidate)
}

// fill makes the posting.
func (p *posting) fill(all *btree.BTreeG[candidate]) {
	p.tree = btree.NewBTreeGOptions(lessPosted, btree.Options{NoLocks: true})
	all.Scan(func(c candidate) bool {
		p.add(c)
		return true
	})
}

func (p *posting) add(c candidate) {
	if p.tree == nil {
		return
	}
	if place, ok := p.bucket(c.volume.Labels); ok {
		p.tree.Set(posted{place, c})
	}
}

func (p *posting) remove(c candidate) {
	if p.tree == nil {
		return
	}
	if place, ok := p.bucket(c.volume.Labels); ok {
		p.tree.Delete(posted{place, c})
	}
}

// smallest finds the first volume of each place that is asked for, and of those the first. It passes over volumes that are
// in the place by chance.
func (p *posting) smallest(from candidate, q *query) *corev1.PersistentVolume {
	var best candidate
	for _, place := range q.buckets {
		p.tree.Ascend(posted{place, from}, func(one posted) bool {
			if one.bucket != place || best.volume != nil && lessCandidate(best, one.candidate) {
				return false
			}
			if !q.selector.Matches(labels.Set(one.volume.Labels)) {
				return true
			}
			best = one.candidate
			return false
		})
	}
	return best.volume
}
