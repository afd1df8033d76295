package pvdiff

import (
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
)

// isExchange tells whether two states differ only in that volumes went to other claims, or claims to other volumes, than they
// did in the other state, and might as well have: each claim suits each of the volumes it got, and where it is only one
// claim that differs, the volumes it got are equally good.
func (d delta) isExchange() bool {
	claims, volumes := d.exchanged()
	if len(claims) == 0 {
		return false
	}
	return all(d.lines(), func(line string) bool {
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

// exchanged are the UIDs of the claims that name another volume in one state than in the other, and the names of these
// volumes; none if one of the claims could not have had the volume it has.
func (d delta) exchanged() (claims, volumes []string) {
	alone := true
	upstream, ours := claimsOf(d.upstream), claimsOf(d.ours)
	var got [2]*corev1.PersistentVolume
	for uid, a := range upstream {
		b, ok := ours[uid]
		if !ok || a.Spec.VolumeName == b.Spec.VolumeName {
			continue
		}
		got[0], got[1] = volumeOf(d.upstream, a.Spec.VolumeName), volumeOf(d.ours, b.Spec.VolumeName)
		for _, v := range got {
			if v == nil {
				continue
			}
			if !suits(a, v) {
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

func suits(c *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) bool {
	selector, err := metav1.LabelSelectorAsSelector(c.Spec.Selector)
	return err == nil && (c.Spec.Selector == nil || selector.Matches(labels.Set(v.Labels))) &&
		v.Spec.Capacity.Storage().Cmp(*c.Spec.Resources.Requests.Storage()) >= 0 &&
		storagehelpers.CheckAccessModes(c, v) && !storagehelpers.CheckVolumeModeMismatches(&c.Spec, &v.Spec) &&
		storagehelpers.GetPersistentVolumeClass(v) == storagehelpers.GetPersistentVolumeClaimClass(c) &&
		ptr.Deref(c.Spec.VolumeAttributesClassName, "") == ptr.Deref(v.Spec.VolumeAttributesClassName, "")
}

// claimsOf reads the claims of a state, by their UIDs there.
func claimsOf(state []string) map[string]*corev1.PersistentVolumeClaim {
	claims := map[string]*corev1.PersistentVolumeClaim{}
	for _, line := range state {
		if text, ok := strings.CutPrefix(line, "claim "); ok {
			c := read[corev1.PersistentVolumeClaim](text)
			claims[string(c.UID)] = c
		}
	}
	return claims
}

// volumeOf reads a volume of a state; nil when it is not there.
func volumeOf(state []string, name string) *corev1.PersistentVolume {
	for _, line := range state {
		if text, ok := strings.CutPrefix(line, "volume "); ok {
			if v := read[corev1.PersistentVolume](text); v.Name == name {
				return v
			}
		}
	}
	return nil
}

func read[T any](text string) *T {
	obj := new(T)
	if err := json.Unmarshal([]byte(text), obj); err != nil {
		panic(err)
	}
	return obj
}
