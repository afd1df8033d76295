package lvm

import (
	"fmt"
	"math"
	"testing"

	"github.com/volsim/volsim/internal/lvm2"
)

// A reservation counts until the volume exists, and then only the volume counts.
func TestThinFreeBytes(t *testing.T) {
	thin := func(name string, size int64) lvm2.LogicalVolume {
		return lvm2.LogicalVolume{Name: name, Size: size, Layout: lvm2.Thin, Pool: thinPool}
	}
	pool100 := lvm2.LogicalVolume{Name: thinPool, Size: 100, Layout: lvm2.ThinPool}
	full := pool100
	full.DataPercent = 100
	for _, c := range []struct {
		name     string
		volumes  []lvm2.LogicalVolume
		promised map[string]int64
		ratio    float64
		want     int64
	}{
		{name: "no pool yet", want: 500},
		{name: "an empty pool", volumes: []lvm2.LogicalVolume{pool100}, want: 100},
		{name: "overcommitted", volumes: []lvm2.LogicalVolume{pool100, thin("a", 30)}, ratio: 2, want: 170},
		{
			name: "one is being created", volumes: []lvm2.LogicalVolume{pool100, thin("a", 30)},
			promised: map[string]int64{"b": 20}, want: 50,
		},
		{
			name: "one is being copied", volumes: []lvm2.LogicalVolume{pool100, thin("a", 30)},
			promised: map[string]int64{"a": 30}, want: 70,
		},
		{
			name: "one grows", volumes: []lvm2.LogicalVolume{pool100, thin("a", 30)},
			promised: map[string]int64{"a": 50}, want: 50,
		},
		{name: "too much was promised", volumes: []lvm2.LogicalVolume{pool100, thin("a", 130)}, want: 0},
		{name: "full", volumes: []lvm2.LogicalVolume{full}, ratio: 9, want: 0},
		{name: "almost unlimited", volumes: []lvm2.LogicalVolume{pool100}, ratio: 1e300, want: math.MaxInt64},
		{name: "one outside the pool", volumes: []lvm2.LogicalVolume{pool100, {Name: "l", Size: 70}}, want: 100},
	} {
		p := &pool{thin: Thin{OvercommitRatio: c.ratio}, reserved: c.promised}
		report := &lvm2.Report{Size: 1000, ExtentSize: 1, LogicalVolumes: c.volumes}
		if got := p.thinFreeBytes(report); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestOvercommitRatioIsChecked(t *testing.T) {
	for _, ratio := range []float64{-1, 0.5, math.NaN(), math.Inf(1), math.Inf(-1)} {
		_, err := New(t.Context(), Config{Nodes: []NodeConfig{{Name: "node-1", Thin: Thin{OvercommitRatio: ratio}}}})
		if want := fmt.Sprintf("lvm: node node-1: invalid overcommit ratio %v: want a number of at least 1", ratio); err == nil || err.Error() != want {
			t.Errorf("%v: got %v, want %q", ratio, err, want)
		}
	}
	for _, ratio := range []float64{0, 1, 1.5} {
		if err := (Thin{OvercommitRatio: ratio}).check(); err != nil {
			t.Errorf("%v: %v", ratio, err)
		}
	}
}
