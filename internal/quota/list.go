package quota

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// one is the usage of an object that counts.
func one() resource.Quantity { return *resource.NewQuantity(1, resource.DecimalSI) }

// Equal reports whether two lists have the same resources and amounts.
func Equal(a, b corev1.ResourceList) bool {
	return maps.EqualFunc(a, b, func(x, y resource.Quantity) bool { return x.Cmp(y) == 0 })
}

// Add adds amounts to a list. The list becomes the caller's.
func Add(to, more corev1.ResourceList) corev1.ResourceList {
	if to == nil {
		to = corev1.ResourceList{}
	}
	for name, amount := range more {
		sum := amount.DeepCopy()
		if had, ok := to[name]; ok {
			sum = had.DeepCopy()
			sum.Add(amount)
		}
		to[name] = sum
	}
	return to
}

// only returns the amounts of the named resources.
func only(list corev1.ResourceList, names []corev1.ResourceName) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, name := range names {
		if amount, ok := list[name]; ok {
			out[name] = amount
		}
	}
	return out
}

// Growth returns by how much usage grows, without what does not grow.
//
// Upstream: k8s.io/apiserver/pkg/quota/v1 SubtractWithNonNegativeResult, RemoveZeros.
func Growth(before, after corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, amount := range after {
		grown := amount.DeepCopy()
		if had, ok := before[name]; ok {
			grown.Sub(had)
		}
		if grown.Sign() > 0 {
			out[name] = grown
		}
	}
	return out
}

// names returns the resources of a list, sorted.
func names(list corev1.ResourceList) []corev1.ResourceName { return slices.Sorted(maps.Keys(list)) }

// text returns a list as errors show it.
func text(list corev1.ResourceList) string {
	var parts []string
	for _, name := range names(list) {
		amount := list[name]
		parts = append(parts, string(name)+"="+amount.String())
	}
	return strings.Join(parts, ",")
}

func textOf(all []corev1.ResourceName) string {
	var parts []string
	for _, name := range slices.Sorted(slices.Values(all)) {
		parts = append(parts, string(name))
	}
	return strings.Join(parts, ",")
}
