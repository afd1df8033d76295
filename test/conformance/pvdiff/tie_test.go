package pvdiff

import (
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/test/conformance/histories"
)

// isExchange reports whether two states differ only in which claims and volumes are bound to each
// other, and both bindings are possible: each claim matches each volume that it got. If a single
// claim differs, its two volumes are equally good.
func isExchange(d delta) bool {
	claims, volumes := exchanged(d)
	if len(claims) == 0 {
		return false
	}
	return all(d.Lines(), func(line string) bool {
		for _, claim := range claims {
			if strings.Contains(line, claim) {
				return true
			}
		}
		for _, volume := range volumes {
			if strings.Contains(line, `"`+volume+`"`) {
				return true
			}
		}
		return false
	})
}

// exchanged returns the UIDs of the claims that name different volumes in the two states, and the
// names of these volumes. It returns none if one of the claims does not match its volume.
func exchanged(d delta) (claims, volumes []string) {
	alone := true
	upstream, ours := claimsOf(d.Upstream), claimsOf(d.Ours)
	var got [2]*corev1.PersistentVolume
	for uid, a := range upstream {
		b, ok := ours[uid]
		if !ok || a.Spec.VolumeName == b.Spec.VolumeName {
			continue
		}
		got[0], got[1] = volumeOf(d.Upstream, a.Spec.VolumeName), volumeOf(d.Ours, b.Spec.VolumeName)
		for _, v := range got {
			if v == nil {
				continue
			}
			if !matches(a, v) {
				return nil, nil
			}
			volumes = append(volumes, v.Name)
		}
		alone = len(claims) == 0
		claims = append(claims, uid)
	}
	if len(claims) == 1 && alone && !equallyGood(got[0], got[1]) {
		return nil, nil
	}
	return claims, volumes
}

func equallyGood(a, b *corev1.PersistentVolume) bool {
	return a != nil && b != nil && len(a.Spec.AccessModes) == len(b.Spec.AccessModes) &&
		a.Spec.Capacity.Storage().Cmp(*b.Spec.Capacity.Storage()) == 0
}

func matches(c *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) bool {
	selector, err := metav1.LabelSelectorAsSelector(c.Spec.Selector)
	return err == nil && (c.Spec.Selector == nil || selector.Matches(labels.Set(v.Labels))) &&
		v.Spec.Capacity.Storage().Cmp(*c.Spec.Resources.Requests.Storage()) >= 0 &&
		storagehelpers.CheckAccessModes(c, v) && !storagehelpers.CheckVolumeModeMismatches(&c.Spec, &v.Spec) &&
		storagehelpers.GetPersistentVolumeClass(v) == storagehelpers.GetPersistentVolumeClaimClass(c) &&
		ptr.Deref(c.Spec.VolumeAttributesClassName, "") == ptr.Deref(v.Spec.VolumeAttributesClassName, "")
}

// claimsOf returns the claims of a state by their UIDs.
func claimsOf(state histories.State) map[string]*corev1.PersistentVolumeClaim {
	claims := map[string]*corev1.PersistentVolumeClaim{}
	for _, line := range state {
		if text, ok := strings.CutPrefix(line, "claim "); ok {
			c := parse[corev1.PersistentVolumeClaim](text)
			claims[string(c.UID)] = c
		}
	}
	return claims
}

// volumeOf returns a volume of a state, or nil.
func volumeOf(state histories.State, name string) *corev1.PersistentVolume {
	for _, line := range state {
		if text, ok := strings.CutPrefix(line, "volume "); ok {
			if v := parse[corev1.PersistentVolume](text); v.Name == name {
				return v
			}
		}
	}
	return nil
}

func parse[T any](text string) *T {
	obj := new(T)
	if err := json.Unmarshal([]byte(text), obj); err != nil {
		panic(err)
	}
	return obj
}
