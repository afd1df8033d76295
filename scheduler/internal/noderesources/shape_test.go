package noderesources_test

import (
	"testing"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

// TestShape has the functions of upstream's TestBrokenLinearFunction.
func TestShape(t *testing.T) {
	for _, test := range []struct {
		shape framework.Shape
		want  map[int64]int64
	}{
		{
			framework.Shape{{Utilization: 10, Score: 1}, {Utilization: 90, Score: 9}},
			map[int64]int64{-10: 1, 0: 1, 9: 1, 10: 1, 15: 1, 19: 1, 20: 2, 89: 8, 90: 9, 99: 9, 100: 9, 110: 9},
		},
		{
			framework.Shape{{Utilization: 0, Score: 2}, {Utilization: 40, Score: 10}, {Utilization: 100, Score: 0}},
			map[int64]int64{-10: 2, 0: 2, 20: 6, 30: 8, 40: 10, 70: 5, 100: 0, 110: 0},
		},
		{
			framework.Shape{{Utilization: 0, Score: 2}, {Utilization: 40, Score: 2}, {Utilization: 100, Score: 2}},
			map[int64]int64{-10: 2, 0: 2, 20: 2, 30: 2, 40: 2, 70: 2, 100: 2, 110: 2},
		},
	} {
		for x, want := range test.want {
			if got := test.shape.At(x); got != want {
				t.Errorf("%v at %d: got %d, want %d", test.shape, x, got, want)
			}
		}
	}
}
