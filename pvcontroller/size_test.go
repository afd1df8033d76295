package pvcontroller

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"
)

// quantities are sizes with difficult comparisons: fractions of a byte, the same amount in several
// notations, and amounts beyond int64.
var quantities = func() []resource.Quantity {
	var all []resource.Quantity
	for _, text := range []string{
		"-1500m", "-1", "0", "1n", "500m", "0.5", "1", "1000m", "1001m", "1500m", "1.5", "2", "2000m", "1023Mi", "1Gi",
		"1073741824", "1073741824000m", "1073741824500m", "1.0000000005Gi", "2Gi", "4Ei", "9223372036854775806",
		"9223372036854775806500m", "9223372036854775807",
	} {
		all = append(all, resource.MustParse(text))
	}
	// Parsing ends at MaxInt64. Sums don't.
	for _, more := range []string{"1m", "1", "2Ei"} {
		sum := resource.MustParse("9223372036854775807")
		sum.Add(resource.MustParse(more))
		all = append(all, sum)
	}
	return append(all, *resource.NewScaledQuantity(10, resource.Exa), *resource.NewScaledQuantity(1, resource.Exa))
}()

func TestSizesSortAsQuantitiesDo(t *testing.T) {
	for _, a := range quantities {
		for _, b := range quantities {
			checkSizes(t, a, b)
		}
	}
	rapid.Check(t, func(t *rapid.T) { checkSizes(t, drawQuantity(t, "a"), drawQuantity(t, "b")) })
}

func checkSizes(t rapid.TB, a, b resource.Quantity) {
	x, y := sizeOf(a), sizeOf(b)
	switch want := a.Cmp(b); {
	case x < y && want >= 0, x > y && want <= 0:
		t.Errorf("sizes of %v and %v: %d and %d, but they compare as %d", &a, &b, x, y, want)
	case x == y && x.isExact() && want != 0:
		t.Errorf("%v and %v have one exact size, %d, but they compare as %d", &a, &b, x, want)
	}
}

func TestWholeBytesAreExact(t *testing.T) {
	for _, text := range []string{"0", "1", "2000m", "1Gi", "1073741824000m", "4Ei", "9223372036854775806", "1E"} {
		if q := resource.MustParse(text); !sizeOf(q).isExact() {
			t.Errorf("size of %s is not exact", text)
		}
	}
}

func drawQuantity(t *rapid.T, label string) resource.Quantity {
	if rapid.Bool().Draw(t, label+" is odd") {
		return rapid.SampledFrom(quantities).Draw(t, label).DeepCopy()
	}
	q := *resource.NewScaledQuantity(rapid.Int64().Draw(t, label),
		resource.Scale(rapid.IntRange(-9, 3).Draw(t, label+" scale")))
	return q
}
