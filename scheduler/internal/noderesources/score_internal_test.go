package noderesources

import "testing"

// TestInterpolated has the functions of upstream's TestBrokenLinearFunction.
func TestInterpolated(t *testing.T) {
	for _, test := range []struct {
		points []UtilizationShapePoint
		want   map[int64]int64
	}{
		{
			[]UtilizationShapePoint{{10, 1}, {90, 9}},
			map[int64]int64{-10: 1, 0: 1, 9: 1, 10: 1, 15: 1, 19: 1, 20: 2, 89: 8, 90: 9, 99: 9, 100: 9, 110: 9},
		},
		{
			[]UtilizationShapePoint{{0, 2}, {40, 10}, {100, 0}},
			map[int64]int64{-10: 2, 0: 2, 20: 6, 30: 8, 40: 10, 70: 5, 100: 0, 110: 0},
		},
		{
			[]UtilizationShapePoint{{0, 2}, {40, 2}, {100, 2}},
			map[int64]int64{-10: 2, 0: 2, 20: 2, 30: 2, 40: 2, 70: 2, 100: 2, 110: 2},
		},
	} {
		for x, want := range test.want {
			if got := interpolated(test.points, x); got != want {
				t.Errorf("%v at %d: got %d, want %d", test.points, x, got, want)
			}
		}
	}
}
