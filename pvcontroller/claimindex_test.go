package pvcontroller

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// TestSeekersMirrorPool lists all claims to which a free volume is offered, while claims are
// created, changed and deleted. They are exactly those that upstream would match with it if it were
// the only volume, largest requests first.
func TestSeekersMirrorPool(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drafter{plain: rapid.Bool().Draw(t, "plain"), selectors: drawSelectors(t)}
		s, claims := newClaimIndex(), map[string]*corev1.PersistentVolumeClaim{}
		for range rapid.IntRange(1, 40).Draw(t, "moments") {
			claim := d.claim(t)
			claim.Namespace = rapid.SampledFrom([]string{"x", "x-y"}).Draw(t, "namespace")
			claim.Name = drawName(t)
			if known := claims[keyOf(claim)]; known != nil {
				s.remove(known)
				delete(claims, keyOf(claim))
			}
			switch rapid.IntRange(0, 9).Draw(t, "kind") {
			case 0, 1:
				s.remove(claim) // not present
			case 2, 3, 4:
				checkOffers(t, s, claims, d.volume(t, "1"))
			default:
				s.add(claim)
				s.add(claim)
				claims[keyOf(claim)] = claim
			}
		}
		checkOffers(t, s, claims, d.volume(t, "1"))
		for _, claim := range claims {
			s.remove(claim)
		}
		if len(s.groups) > 0 {
			t.Errorf("%d shapes remain after all claims are removed", len(s.groups))
		}
	})
}

func checkOffers(t *rapid.T, s *claimIndex,
	claims map[string]*corev1.PersistentVolumeClaim, v *corev1.PersistentVolume,
) {
	v.Spec.ClaimRef, v.Status.Phase, v.DeletionTimestamp = nil, corev1.VolumeAvailable, nil
	upstream := newUpstreamIndex()
	upstream.add(v)
	var want, got []string
	for _, claim := range slices.SortedFunc(maps.Values(claims), mostFirst) {
		if match, err := upstream.match(claim, false); err == nil && match != nil {
			want = append(want, keyOf(claim))
		}
	}
	for claim := s.next(v, nil); claim != nil && len(got) <= len(claims); claim = s.next(v, claim) {
		got = append(got, keyOf(claim))
	}
	if !slices.Equal(got, want) {
		t.Fatalf("offered to %q, want %q", got, want)
	}
}

func mostFirst(a, b *corev1.PersistentVolumeClaim) int {
	x, y := requestOf(a), requestOf(b)
	if c := y.Cmp(x); c != 0 {
		return c
	}
	if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

// TestOfferSkipsClaimsThatGrew offers a volume that was pending for a claim which has increased its
// request since.
func TestOfferSkipsClaimsThatGrew(t *testing.T) {
	s := newClaimIndex()
	claims := restingClaims(10, func(i int, claim *corev1.PersistentVolumeClaim) {
		claim.Spec.Resources.Requests[corev1.ResourceStorage] = gib(i + 1)
	})
	for _, claim := range claims {
		s.add(claim)
	}
	v := freeVolume("v", "1")
	v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: gib(4)}
	if got := s.next(v, claims[8]); got != claims[3] {
		t.Errorf("after the claim of 9Gi: got %v, want the claim of 4Gi", got)
	}
}

// TestOneCrowdForOneForm checks the grouping that keeps an offer from visiting all claims.
func TestOneCrowdForOneForm(t *testing.T) {
	s := newClaimIndex()
	for _, claim := range restingClaims(100, func(i int, claim *corev1.PersistentVolumeClaim) {
		claim.Spec.Selector = &metav1.LabelSelector{
			MatchLabels: map[string]string{"app": fmt.Sprint(i)},
			MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "old", Operator: metav1.LabelSelectorOpDoesNotExist},
				{Key: "zone", Operator: metav1.LabelSelectorOpIn, Values: []string{fmt.Sprint(i), "all"}},
			},
		}
	}) {
		s.add(claim)
	}
	for _, crowds := range s.groups {
		if len(crowds) != 1 || crowds[0].tree.Len() != 200 {
			t.Errorf("%d crowds, the first with %d entries: want one with 200", len(crowds), crowds[0].tree.Len())
		}
	}
}
