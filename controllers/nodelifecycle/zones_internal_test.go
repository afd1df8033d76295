package nodelifecycle

import (
	"testing"
	"time"
)

func TestStateAndRateOfAZone(t *testing.T) {
	tests := []struct {
		ready, unready int
		state          zoneState
		rate           float64
	}{
		{0, 0, zoneNormal, 0.1},
		{1, 0, zoneNormal, 0.1},
		{0, 1, zoneFull, 0.1},
		{1, 2, zoneNormal, 0.1},
		{2, 3, zonePartial, 0},
		{3, 3, zoneNormal, 0.1},
		{23, 27, zoneNormal, 0.1},
		{22, 28, zonePartial, 0},
		{22, 29, zonePartial, 0.01},
	}
	for _, test := range tests {
		state := stateOf(test.ready, test.unready)
		if rate := rateOf(state, test.ready+test.unready); state != test.state || rate != test.rate {
			t.Errorf("%d ready and %d not: got state %d and rate %v, want %d and %v",
				test.ready, test.unready, state, rate, test.state, test.rate)
		}
	}
}

// TestLimit: a bucket that is full stays so with another rate, and one that is not is emptied.
func TestLimit(t *testing.T) {
	start := time.Unix(0, 0)
	z := &zone{rate: 0.1}
	step := func(what string, at, want time.Duration, change func(now time.Time)) {
		t.Helper()
		change(start.Add(at))
		if got := max(z.next.Sub(start), 0); got != want {
			t.Errorf("%s: next at %v, want %v", what, got, want)
		}
	}
	step("full", 0, 0, func(now time.Time) { z.limit(0.01, now) })
	step("taken", 5*time.Second, 105*time.Second, z.take)
	step("same rate", 6*time.Second, 105*time.Second, func(now time.Time) { z.limit(0.01, now) })
	step("another rate", 7*time.Second, 17*time.Second, func(now time.Time) { z.limit(0.1, now) })
	step("no rate", 8*time.Second, 8*time.Second, func(now time.Time) { z.limit(0, now) })
	step("a rate again", 60*time.Second, 70*time.Second, func(now time.Time) { z.limit(0.1, now) })
	step("full again", 80*time.Second, 70*time.Second, func(now time.Time) { z.limit(0.01, now) })
}
