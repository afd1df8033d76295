package pvcontroller

import (
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// matcher is what the benchmarks compare: the pool, and upstream's index.
type matcher interface {
	add(volume *corev1.PersistentVolume)
	remove(volume *corev1.PersistentVolume)
	match(claim *corev1.PersistentVolumeClaim, delayed bool) (*corev1.PersistentVolume, error)
}

// BenchmarkMatch matches one claim an iteration with one of n free volumes of one shape, whose
// sizes are from 1 to 1000 GiB, and does the same with upstream's index. What the claims ask for is
// drawn over the whole range beforehand.
//
//	n           by size
//	n/selector  by a label that one volume has
//	n/disjoint  by two labels of which a third of the volumes have the one, and the others the other: nothing is found
//	n/forms     by a label that one volume has, with selectors of a hundred forms in turn: too many to be remembered
//	n/reserved  by claimRef: all volumes are taken, this one by the claim that asks
//	n/churn     by size; the match is removed and added again
//
// B/volume is what the index takes besides the volumes.
func BenchmarkMatch(b *testing.B) {
	for _, side := range []struct {
		name string
		new  func() matcher
	}{
		{"volsim", func() matcher { return newPool() }},
		{"upstream", func() matcher { return newUpstreamIndex() }},
	} {
		for _, n := range []int{100, 1_000, 10_000, 100_000} {
			volumes := freeVolumes(n)
			name := fmt.Sprint(side.name, "/", n)
			b.Run(name, func(b *testing.B) {
				benchmarkMatch(b, side.new(), volumes, claimsBySize(n), true)
			})
			b.Run(name+"/selector", func(b *testing.B) {
				benchmarkMatch(b, side.new(), volumes, claimsByLabel(n), true)
			})
			b.Run(name+"/disjoint", func(b *testing.B) {
				benchmarkMatch(b, side.new(), volumes, claimsOfNone(), false)
			})
			b.Run(name+"/forms", func(b *testing.B) {
				benchmarkMatch(b, side.new(), volumes, claimsByForm(n), true)
			})
			b.Run(name+"/reserved", func(b *testing.B) {
				benchmarkMatch(b, side.new(), reservedVolumes(n), reservingClaims(n), true)
			})
			b.Run(name+"/churn", func(b *testing.B) { benchmarkChurn(b, side.new(), volumes, claimsBySize(n)) })
		}
	}
}

func benchmarkMatch(
	b *testing.B, m matcher, volumes []*corev1.PersistentVolume, claims []*corev1.PersistentVolumeClaim, found bool,
) {
	bytes := fill(b, m, volumes, claims)
	for i := asksFirst; b.Loop(); i++ {
		if v, err := m.match(claims[i%len(claims)], false); err != nil || (v != nil) != found {
			b.Fatal(v, err)
		}
	}
	b.ReportMetric(bytes, "B/volume")
}

func benchmarkChurn(
	b *testing.B, m matcher, volumes []*corev1.PersistentVolume, claims []*corev1.PersistentVolumeClaim,
) {
	bytes := fill(b, m, volumes, claims)
	for i := asksFirst; b.Loop(); i++ {
		v, err := m.match(claims[i%len(claims)], false)
		if err != nil || v == nil {
			b.Fatal(v, err)
		}
		m.remove(v)
		m.add(v)
	}
	b.ReportMetric(bytes, "B/volume")
}

// asksFirst is how often is asked before the time counts.
const asksFirst = 10

// fill adds the volumes and asks a few times, as a selector of a form that is new is dear. It
// returns the bytes a volume takes.
func fill(
	b *testing.B, m matcher, volumes []*corev1.PersistentVolume, claims []*corev1.PersistentVolumeClaim,
) float64 {
	b.ReportAllocs()
	before := heapInUse()
	for _, v := range volumes {
		m.add(v)
	}
	for _, claim := range claims[:asksFirst] {
		if _, err := m.match(claim, false); err != nil {
			b.Fatal(err)
		}
	}
	return float64(int64(heapInUse()-before)) / float64(len(volumes))
}

// heapInUse returns how many bytes are in use.
func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func freeVolumes(n int) []*corev1.PersistentVolume {
	volumes := make([]*corev1.PersistentVolume, n)
	for i := range volumes {
		kind := "a"
		if i%3 != 0 {
			kind = "b"
		}
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{
			Name:   fmt.Sprintf("v%06d", i),
			Labels: map[string]string{"serial": fmt.Sprint(i), "rack": kind, "disk": kind},
		}}
		v.Spec.AccessModes = allModes[:1]
		v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: gib(i%1000 + 1)}
		v.Status.Phase = corev1.VolumeAvailable
		volumes[i] = v
	}
	return volumes
}

// claimsBySize asks for whole GiB from 1 to the largest of n volumes.
func claimsBySize(n int) []*corev1.PersistentVolumeClaim {
	return claimsOf(func(draw int, claim *corev1.PersistentVolumeClaim) {
		claim.Spec.Resources.Requests[corev1.ResourceStorage] = gib(draw%min(n, 1000) + 1)
	})
}

func claimsByLabel(n int) []*corev1.PersistentVolumeClaim {
	return claimsOf(func(draw int, claim *corev1.PersistentVolumeClaim) {
		claim.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"serial": fmt.Sprint(draw % n)}}
	})
}

func claimsOfNone() []*corev1.PersistentVolumeClaim {
	return claimsOf(func(_ int, claim *corev1.PersistentVolumeClaim) {
		claim.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"rack": "a", "disk": "b"}}
	})
}

func claimsByForm(n int) []*corev1.PersistentVolumeClaim {
	forms := 0
	return claimsOf(func(draw int, claim *corev1.PersistentVolumeClaim) {
		forms++
		claim.Spec.Selector = &metav1.LabelSelector{
			MatchLabels: map[string]string{"serial": fmt.Sprint(draw % n)},
			MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: fmt.Sprint("key", forms%100), Operator: metav1.LabelSelectorOpDoesNotExist},
			},
		}
	})
}

// reservedVolumes are bound, each to a claim of its own.
func reservedVolumes(n int) []*corev1.PersistentVolume {
	volumes := freeVolumes(n)
	for i, v := range volumes {
		v.Spec.ClaimRef = &corev1.ObjectReference{
			Namespace: "ns", Name: fmt.Sprint("c", i),
			UID: types.UID(fmt.Sprint(i)),
		}
		v.Status.Phase = corev1.VolumeBound
	}
	return volumes
}

func reservingClaims(n int) []*corev1.PersistentVolumeClaim {
	return claimsOf(func(draw int, claim *corev1.PersistentVolumeClaim) {
		claim.Name, claim.UID = fmt.Sprint("c", draw%n), types.UID(fmt.Sprint(draw%n))
	})
}

// claimsOf makes claims with numbers that are drawn, always the same ones.
func claimsOf(set func(draw int, claim *corev1.PersistentVolumeClaim)) []*corev1.PersistentVolumeClaim {
	claims := make([]*corev1.PersistentVolumeClaim, 1024)
	draw := uint64(1)
	for i := range claims {
		draw = draw*6364136223846793005 + 1442695040888963407
		claims[i] = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns",
			Name:      fmt.Sprint("c", i),
		}}
		claims[i].Spec.AccessModes = allModes[:1]
		claims[i].Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: gib(1)}
		claims[i].Spec.StorageClassName = ptr.To("")
		set(int(draw>>33), claims[i])
	}
	return claims
}

// BenchmarkOffer looks, for one free volume an iteration, for a claim that it suits among n that
// rest and that it does not suit: for want of size, of an access mode, or of a label of which each
// claim asks for another value.
func BenchmarkOffer(b *testing.B) {
	unsuited := []struct {
		name string
		set  func(i int, claim *corev1.PersistentVolumeClaim)
	}{
		{"size", func(i int, claim *corev1.PersistentVolumeClaim) {
			claim.Spec.Resources.Requests[corev1.ResourceStorage] = gib(i + 2)
		}},
		{"modes", func(_ int, claim *corev1.PersistentVolumeClaim) { claim.Spec.AccessModes = allModes[1:2] }},
		{"selector", func(i int, claim *corev1.PersistentVolumeClaim) {
			claim.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"serial": fmt.Sprint(i + 1)}}
		}},
	}
	volume := freeVolumes(1)[0]
	for _, why := range unsuited {
		for _, n := range []int{100, 1_000, 10_000, 100_000} {
			b.Run(fmt.Sprint(why.name, "/", n), func(b *testing.B) {
				b.ReportAllocs()
				claims, s := restingClaims(n, why.set), newClaimIndex()
				before := heapInUse()
				for _, claim := range claims {
					s.add(claim)
				}
				bytes := float64(int64(heapInUse()-before)) / float64(n)
				for b.Loop() {
					if claim := s.next(volume, nil); claim != nil {
						b.Fatal(claim)
					}
				}
				b.ReportMetric(bytes, "B/claim")
				runtime.KeepAlive(claims)
			})
		}
	}
}

func restingClaims(n int, set func(i int, claim *corev1.PersistentVolumeClaim)) []*corev1.PersistentVolumeClaim {
	claims := make([]*corev1.PersistentVolumeClaim, n)
	for i := range claims {
		claims[i] = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns",
			Name:      fmt.Sprint("c", i),
		}}
		claims[i].Spec.AccessModes = allModes[:1]
		claims[i].Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: gib(1)}
		set(i, claims[i])
	}
	return claims
}

func gib(n int) resource.Quantity { return *resource.NewQuantity(int64(n)<<30, resource.BinarySI) }
