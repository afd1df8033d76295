package volumebinding

import (
	"slices"
	"testing"

	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

// shape returns a shape of utilizations, each with its score.
func shape(pairs ...int32) []configv1.UtilizationShapePoint {
	var points []configv1.UtilizationShapePoint
	for pair := range slices.Chunk(pairs, 2) {
		points = append(points, configv1.UtilizationShapePoint{Utilization: pair[0], Score: pair[1]})
	}
	return points
}

func TestScore(t *testing.T) {
	// The default of upstream's test prefers full nodes.
	full := shape(0, 0, 100, 10)
	// The scores of upstream's custom shape, divided by 10.
	custom := shape(50, 0, 80, 3, 100, 5)
	for _, test := range []struct {
		name      string
		shape     []configv1.UtilizationShapePoint
		requested []int64 // of 100, by class
		want      int64
	}{
		{"default shape, single class", full, []int64{0}, 0},
		{"default shape, single class", full, []int64{30}, 30},
		{"default shape, single class", full, []int64{50}, 50},
		{"default shape, single class", full, []int64{100}, 100},
		{"default shape, multiple classes", full, []int64{0, 0}, 0},
		{"default shape, multiple classes", full, []int64{0, 30}, 15},
		{"default shape, multiple classes", full, []int64{30, 30}, 30},
		{"default shape, multiple classes", full, []int64{30, 60}, 45},
		{"default shape, multiple classes", full, []int64{50, 50}, 50},
		{"default shape, multiple classes", full, []int64{50, 100}, 75},
		{"default shape, multiple classes", full, []int64{100, 100}, 100},
		{"custom shape, multiple classes", custom, []int64{0, 0}, 0},
		{"custom shape, multiple classes", custom, []int64{0, 30}, 0},
		{"custom shape, multiple classes", custom, []int64{30, 30}, 0},
		{"custom shape, multiple classes", custom, []int64{30, 60}, 5},
		{"custom shape, multiple classes", custom, []int64{50, 100}, 25},
		{"custom shape, multiple classes", custom, []int64{90, 90}, 40},
		{"custom shape, multiple classes", custom, []int64{100, 100}, 50},
		{"more than there is (not in upstream's table)", full, []int64{101}, 100},
		{"no class (not in upstream's table)", full, nil, 0},
		{"beyond the last point (not in upstream's table)", shape(0, 0, 50, 10), []int64{60}, 100},
	} {
		classes := map[string]storageUse{}
		for i, requested := range test.requested {
			classes[string(rune('a'+i))] = storageUse{requested, 100}
		}
		if got := scoreOf(classes, framework.NewShape(test.shape)); got != test.want {
			t.Errorf("%s: %v of 100 have score %d, want %d", test.name, test.requested, got, test.want)
		}
	}
	if got := scoreOf(map[string]storageUse{"a": {0, 0}}, framework.NewShape(full)); got != 100 {
		t.Errorf("a class without capacity has score %d", got)
	}
}
