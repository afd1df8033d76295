package pvcontroller

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
)

// naiveMatch is what upstream does: for each mode set upstream's own walk over all volumes that have it, which are given
// sorted by name.
func naiveMatch(t *rapid.T, all map[string]*corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim, delayed bool) string {
	want := modesOf(claim.Spec.AccessModes)
	for _, modes := range modeSets {
		var volumes []*corev1.PersistentVolume
		for _, v := range all {
			if modesOf(v.Spec.AccessModes) == modes && modes&want == want {
				volumes = append(volumes, v)
			}
		}
		slices.SortFunc(volumes, func(a, b *corev1.PersistentVolume) int { return strings.Compare(a.Name, b.Name) })
		match, err := storagehelpers.FindMatchingVolume(claim, volumes, nil, nil, delayed, true)
		if err != nil {
			t.Fatalf("FindMatchingVolume: %v", err)
		}
		if match != nil {
			return match.Name
		}
	}
	return ""
}

func TestPoolMatchesAsUpstreamWithTiesByName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cache := newVolumeCache()
		all := map[string]*corev1.PersistentVolume{}
		for i := range rapid.IntRange(0, 30).Draw(t, "steps") {
			v := drawVolume(t, fmt.Sprint(i+1))
			if rapid.IntRange(0, 5).Draw(t, "delete") == 0 {
				cache.delete(v.Name)
				delete(all, v.Name)
				continue
			}
			if _, err := cache.put(v); err != nil {
				t.Fatal(err)
			}
			all[v.Name] = v
		}
		for range rapid.IntRange(1, 5).Draw(t, "claims") {
			claim, delayed := drawClaim(t), rapid.Bool().Draw(t, "delayed")
			match, err := cache.pool.match(claim, delayed)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if match != nil {
				got = match.Name
			}
			if want := naiveMatch(t, all, claim, delayed); got != want {
				t.Fatalf("match: got %q, want %q", got, want)
			}
		}
	})
}

// TestSeekersMirrorPool goes through all claims a free volume is offered to: they are just those it is a match for, the
// ones that ask for most first.
func TestSeekersMirrorPool(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawVolume(t, "1")
		v.Spec.ClaimRef, v.Status.Phase, v.DeletionTimestamp = nil, corev1.VolumeAvailable, nil
		p, s := newPool(), newSeekers()
		p.add(v)
		var want []*corev1.PersistentVolumeClaim
		for i := range rapid.IntRange(0, 10).Draw(t, "claims") {
			claim := drawClaim(t)
			claim.Name = fmt.Sprint("c", i)
			s.add(claim)
			if rapid.IntRange(0, 4).Draw(t, "remove") == 0 {
				s.remove(claim)
			} else if match, err := p.match(claim, false); err != nil {
				t.Fatal(err)
			} else if match != nil {
				want = append(want, claim)
			}
		}
		slices.SortStableFunc(want, func(a, b *corev1.PersistentVolumeClaim) int {
			x, y := requestOf(a), requestOf(b)
			return y.Cmp(x)
		})
		var got []*corev1.PersistentVolumeClaim
		for claim := s.next(v, nil); claim != nil; claim = s.next(v, claim) {
			got = append(got, claim)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("offered to %d claims, want %d", len(got), len(want))
		}
	})
}

var (
	allModes = []corev1.PersistentVolumeAccessMode{
		corev1.ReadWriteOnce, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOncePod,
	}
	volumeModes = []*corev1.PersistentVolumeMode{
		nil, ptr.To(corev1.PersistentVolumeFilesystem), ptr.To(corev1.PersistentVolumeBlock),
	}
	attributes = []*string{nil, nil, ptr.To(""), ptr.To("fast")}
	labelSets  = []map[string]string{nil, {"foo": "a"}, {"foo": "b"}}
)

func drawVolume(t *rapid.T, version string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{
		Name:            rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g", "h"}).Draw(t, "name"),
		UID:             "u",
		ResourceVersion: version,
		Labels:          rapid.SampledFrom(labelSets).Draw(t, "labels"),
	}}
	v.Spec.AccessModes = rapid.SliceOfNDistinct(rapid.SampledFrom(allModes), 0, 3, rapid.ID).Draw(t, "modes")
	v.Spec.StorageClassName = rapid.SampledFrom([]string{"", "", "gold"}).Draw(t, "class")
	v.Spec.VolumeMode = rapid.SampledFrom(volumeModes).Draw(t, "mode")
	v.Spec.VolumeAttributesClassName = rapid.SampledFrom(attributes).Draw(t, "attributes")
	if gib := rapid.IntRange(0, 4).Draw(t, "GiB"); gib > 0 {
		v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(fmt.Sprintf("%dGi", gib))}
	}
	if rapid.IntRange(0, 9).Draw(t, "annotated") == 0 {
		v.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: "gold"}
	}
	if rapid.IntRange(0, 9).Draw(t, "deleting") == 0 {
		v.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	}
	v.Status.Phase = rapid.SampledFrom([]corev1.PersistentVolumePhase{
		corev1.VolumeAvailable, corev1.VolumeAvailable, corev1.VolumeAvailable, corev1.VolumePending, corev1.VolumeBound,
		corev1.VolumeReleased,
	}).Draw(t, "phase")
	if rapid.IntRange(0, 3).Draw(t, "reserved") == 0 {
		v.Spec.ClaimRef = &corev1.ObjectReference{
			Namespace: "default",
			Name:      rapid.SampledFrom([]string{"c", "d"}).Draw(t, "claim"),
			UID:       types.UID(rapid.SampledFrom([]string{"", "u1", "u2"}).Draw(t, "uid")),
		}
	}
	return v
}

func drawClaim(t *rapid.T) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", UID: "u1"}}
	claim.Spec.AccessModes = rapid.SliceOfNDistinct(rapid.SampledFrom(allModes), 0, 2, rapid.ID).Draw(t, "modes")
	claim.Spec.StorageClassName = rapid.SampledFrom([]*string{nil, ptr.To(""), ptr.To("gold")}).Draw(t, "class")
	claim.Spec.VolumeMode = rapid.SampledFrom(volumeModes).Draw(t, "mode")
	claim.Spec.VolumeAttributesClassName = rapid.SampledFrom(attributes).Draw(t, "attributes")
	if gib := rapid.IntRange(0, 4).Draw(t, "GiB"); gib > 0 {
		claim.Spec.Resources.Requests = corev1.ResourceList{
			corev1.ResourceStorage: resource.MustParse(fmt.Sprintf("%dGi", gib)),
		}
	}
	if labels := rapid.SampledFrom(labelSets).Draw(t, "selector"); labels != nil {
		claim.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	}
	return claim
}

// BenchmarkMatch matches one claim against 10,000 free volumes, none of which is the last of its size.
func BenchmarkMatch(b *testing.B) {
	p := newPool()
	for i := range 10_000 {
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("v%05d", i)}}
		v.Spec.AccessModes = allModes[:1]
		v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(fmt.Sprintf("%dGi", i%100+1))}
		v.Status.Phase = corev1.VolumeAvailable
		p.add(v)
	}
	claim := &corev1.PersistentVolumeClaim{}
	claim.Spec.AccessModes = allModes[:1]
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("50Gi")}
	for b.Loop() {
		if v, err := p.match(claim, false); err != nil || v.Name != "v00049" {
			b.Fatal(v, err)
		}
	}
}
