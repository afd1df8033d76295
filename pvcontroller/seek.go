package pvcontroller

import (
	"github.com/tidwall/btree"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
)

// seeker is a claim that looks for a volume, in its place: the largest request first, then by key.
type seeker struct {
	request resource.Quantity
	key     string
	claim   *corev1.PersistentVolumeClaim
}

func lessSeeker(a, b seeker) bool {
	if c := a.request.Cmp(b.request); c != 0 {
		return c > 0
	}
	return a.key < b.key
}

// seekers holds claims that look for a volume and rest: no sync of theirs is due. It is to claims what pool is to volumes,
// so that a volume that becomes free need not be offered to all of them.
type seekers struct {
	resting map[shape]*btree.BTreeG[seeker] // no modes in the shape: a volume may have more than are asked for
}

func newSeekers() *seekers { return &seekers{resting: map[shape]*btree.BTreeG[seeker]{}} }

func (s *seekers) add(claim *corev1.PersistentVolumeClaim) {
	need := needOf(claim)
	tree := s.resting[need]
	if tree == nil {
		tree = btree.NewBTreeGOptions(lessSeeker, btree.Options{NoLocks: true})
		s.resting[need] = tree
	}
	tree.Set(seekerOf(claim))
}

func (s *seekers) remove(claim *corev1.PersistentVolumeClaim) {
	need := needOf(claim)
	if tree := s.resting[need]; tree != nil {
		tree.Delete(seekerOf(claim))
		if tree.Len() == 0 {
			delete(s.resting, need)
		}
	}
}

// next finds the claim for a free volume: of those it suits, the one that asks for most, ties by key. after, if not nil,
// is the claim that came before; next finds the one that follows it. nil means there is none.
func (s *seekers) next(volume *corev1.PersistentVolume, after *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	need := shapeOf(volume)
	need.modes = 0
	tree := s.resting[need]
	if tree == nil {
		return nil
	}
	from := seeker{request: volume.Spec.Capacity[corev1.ResourceStorage]}
	if after != nil {
		from = seekerOf(after)
	}
	var found *corev1.PersistentVolumeClaim
	tree.Ascend(from, func(one seeker) bool {
		if one.key != from.key && storagehelpers.CheckAccessModes(one.claim, volume) && selects(one.claim, volume) {
			found = one.claim
		}
		return found == nil
	})
	return found
}

func selects(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) bool {
	selector, err := selectorOf(claim)
	return err == nil && selector.Matches(labels.Set(volume.Labels))
}

func needOf(claim *corev1.PersistentVolumeClaim) shape {
	return shape{
		class:      storagehelpers.GetPersistentVolumeClaimClass(claim),
		volumeMode: volumeModeOf(claim.Spec.VolumeMode),
		attributes: ptr.Deref(claim.Spec.VolumeAttributesClassName, ""),
	}
}

func seekerOf(claim *corev1.PersistentVolumeClaim) seeker {
	return seeker{request: requestOf(claim), key: keyOf(claim), claim: claim}
}
