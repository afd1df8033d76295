package pvcontroller

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

// upstreamIndex matches as upstream does: an indexer finds the volumes with exactly some access
// modes, and upstream's own FindMatchingVolume walks them.
//
// Upstream: pkg/controller/volume/persistentvolume persistentVolumeOrderedIndex (v1.36).
type upstreamIndex struct{ store cache.Indexer }

const byAccessModes = "accessmodes"

func newUpstreamIndex() *upstreamIndex {
	return &upstreamIndex{cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{
		byAccessModes: func(obj any) ([]string, error) {
			return []string{modesText(obj.(*corev1.PersistentVolume).Spec.AccessModes)}, nil
		},
	})}
}

func (u *upstreamIndex) add(volume *corev1.PersistentVolume) { mustIndex(u.store.Add(volume)) }

func (u *upstreamIndex) remove(volume *corev1.PersistentVolume) { mustIndex(u.store.Delete(volume)) }

func (u *upstreamIndex) match(claim *corev1.PersistentVolumeClaim, delayed bool) (*corev1.PersistentVolume, error) {
	for _, modes := range u.modesFor(claim) {
		volumes, err := u.with(modes)
		if err != nil {
			return nil, err
		}
		volume, err := storagehelpers.FindMatchingVolume(claim, volumes, nil, nil, delayed, true)
		if err != nil || volume != nil {
			return volume, err
		}
	}
	return nil, nil
}

// modesFor lists the sets of access modes of volumes that contain all of the claim's, the smallest
// sets first.
func (u *upstreamIndex) modesFor(claim *corev1.PersistentVolumeClaim) []string {
	sets := slices.DeleteFunc(u.store.ListIndexFuncValues(byAccessModes), func(text string) bool {
		has := strings.Split(text, ",")
		return slices.ContainsFunc(claim.Spec.AccessModes, func(want corev1.PersistentVolumeAccessMode) bool {
			return !slices.Contains(has, string(want))
		})
	})
	slices.SortFunc(sets, func(a, b string) int { return cmp.Compare(sizeOfModes(a), sizeOfModes(b)) })
	return sets
}

// with lists the volumes with exactly these access modes, in no order.
func (u *upstreamIndex) with(modes string) ([]*corev1.PersistentVolume, error) {
	objects, err := u.store.ByIndex(byAccessModes, modes)
	volumes := make([]*corev1.PersistentVolume, len(objects))
	for i, obj := range objects {
		volumes[i] = obj.(*corev1.PersistentVolume)
	}
	return volumes, err
}

// modesText names a set of access modes: each known mode once, in a fixed order.
func modesText(modes []corev1.PersistentVolumeAccessMode) string {
	var text []string
	for _, mode := range allModes {
		if slices.Contains(modes, mode) {
			text = append(text, string(mode))
		}
	}
	return strings.Join(text, ",")
}

func sizeOfModes(text string) int {
	if text == "" {
		return 0
	}
	return 1 + strings.Count(text, ",")
}

func mustIndex(err error) {
	if err != nil {
		panic(fmt.Sprint("an index cannot fail: ", err))
	}
}

// answers lists the answers that upstream may give, depending on the order of its maps. It tries
// the smallest sets of modes with a match in any order, and in a set takes any volume that is
// pre-bound to the claim, or any of the smallest. The first answer is the one by our order.
func (u *upstreamIndex) answers(claim *corev1.PersistentVolumeClaim, delayed bool) ([]string, error) {
	sets := u.modesFor(claim)
	slices.SortStableFunc(sets, func(a, b string) int {
		return cmp.Or(cmp.Compare(sizeOfModes(a), sizeOfModes(b)), cmp.Compare(rankOfModes(a), rankOfModes(b)))
	})
	var names []string
	for i, modes := range sets {
		if i > 0 && len(names) > 0 && sizeOfModes(sets[i-1]) < sizeOfModes(modes) {
			break
		}
		volumes, err := u.with(modes)
		if err != nil {
			return nil, err
		}
		more, err := answersAmong(volumes, claim, delayed)
		if err != nil {
			return nil, err
		}
		names = append(names, more...)
	}
	return names, nil
}

// answersAmong matches again without the answer, as long as the next one is as good.
func answersAmong(volumes []*corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim, delayed bool) ([]string, error) {
	slices.SortFunc(volumes, byName)
	var names []string
	var first *corev1.PersistentVolume
	taken := map[string]*corev1.PersistentVolume{}
	for {
		next, err := storagehelpers.FindMatchingVolume(claim, volumes, nil, taken, delayed, true)
		if err != nil || next == nil {
			return names, err
		}
		if first == nil {
			first = next
		}
		if x, y := capacityOf(first), capacityOf(next); (first.Spec.ClaimRef == nil) != (next.Spec.ClaimRef == nil) ||
			next.Spec.ClaimRef == nil && x.Cmp(y) != 0 {
			return names, nil
		}
		taken[next.Name] = next
		names = append(names, next.Name)
	}
}

// rankOfModes returns the order of sets with equally many modes: that of their numbers if RWO, ROX,
// RWX and RWOP are bits.
func rankOfModes(text string) int {
	rank := 0
	for i, mode := range allModes {
		if slices.Contains(strings.Split(text, ","), string(mode)) {
			rank |= 1 << i
		}
	}
	return rank
}
