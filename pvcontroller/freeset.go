package pvcontroller

import (
	"slices"

	"github.com/tidwall/btree"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
)

// A candidate is a free volume in its sort position: by capacity, then by name.
type candidate struct {
	size   size
	volume *corev1.PersistentVolume
}

func candidateOf(volume *corev1.PersistentVolume) candidate {
	return candidate{size: sizeOf(capacityOf(volume)), volume: volume}
}

// candidateOfSize sorts before all volumes of capacity q and after all smaller ones.
func candidateOfSize(q resource.Quantity) candidate {
	c := candidate{size: sizeOf(q), volume: namelessVolume}
	if !c.size.isExact() {
		c.volume = &corev1.PersistentVolume{}
		c.volume.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: q}
	}
	return c
}

// namelessVolume sorts before all volumes of its size.
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

// A freeSet holds the free volumes that differ only in capacity and labels. For forms of selectors
// it has postings: the volumes that the form does not exclude, sorted by bucket first. A selector
// of such a form finds its smallest volume in logarithmic time. Postings are updated with the set.
//
// Building a posting costs as much as one scan of all volumes, or a few. It is built when the scans
// for its form have skipped as many volumes as exist. Forms that are used once, or that match
// early, therefore have none.
type freeSet struct {
	all      *btree.BTreeG[candidate]
	postings []*posting // most recently used first
}

// postingsMax bounds the postings of a freeSet. The least recently used one is dropped.
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

// smallest returns the smallest volume from a size on that the query selects, then the first by
// name, or nil.
func (s *freeSet) smallest(from candidate, q *query) *corev1.PersistentVolume {
	if q.isEverything() {
		return firstFrom(s.all, from)
	}
	p := s.posting(q.form)
	if p.tree != nil {
		return p.smallest(from, q)
	}
	found, skipped := s.walk(from, q)
	p.skipped += skipped
	if p.skipped >= s.all.Len() {
		p.fill(s.all)
	}
	return found
}

// walk returns what smallest returns by a scan, and the number of skipped volumes.
func (s *freeSet) walk(from candidate, q *query) (found *corev1.PersistentVolume, skipped int) {
	s.all.Ascend(from, func(c candidate) bool {
		if q.selector.Matches(labels.Set(c.volume.Labels)) {
			found = c.volume
			return false
		}
		skipped++
		return true
	})
	return found, skipped
}

func firstFrom(tree *btree.BTreeG[candidate], from candidate) *corev1.PersistentVolume {
	var found *corev1.PersistentVolume
	tree.Ascend(from, func(c candidate) bool {
		found = c.volume
		return false
	})
	return found
}

// posting returns the posting of a form. It is not built yet if the form is new or was dropped.
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

// A posting holds volumes sorted by their bucket in a form.
type posting struct {
	form
	tree    *btree.BTreeG[posted] // nil: not built
	skipped int                   // volumes skipped because it was not built
}

// A posted value is a volume in a posting.
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

// fill builds the posting.
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
	if bucket, ok := p.bucket(c.volume.Labels); ok {
		p.tree.Set(posted{bucket, c})
	}
}

func (p *posting) remove(c candidate) {
	if p.tree == nil {
		return
	}
	if bucket, ok := p.bucket(c.volume.Labels); ok {
		p.tree.Delete(posted{bucket, c})
	}
}

// smallest returns the smallest of the first volumes of the query's buckets. It skips volumes that
// share a bucket through a hash collision.
func (p *posting) smallest(from candidate, q *query) *corev1.PersistentVolume {
	var best candidate
	for _, bucket := range q.buckets {
		p.tree.Ascend(posted{bucket, from}, func(one posted) bool {
			if one.bucket != bucket || best.volume != nil && lessCandidate(best, one.candidate) {
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
