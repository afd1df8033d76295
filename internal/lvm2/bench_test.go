//go:build linux

package lvm2_test

import (
	"fmt"
	"testing"

	"github.com/volsim/volsim/internal/lvm2"
	"github.com/volsim/volsim/internal/testcheck"
)

func newBenchmark(b *testing.B) *world {
	b.Helper()
	requireDevices(b)
	return newWorld(b, modes()[0])
}

// The bare command measures LVM alone.

func BenchmarkCreateAndRemove(b *testing.B) {
	w := newBenchmark(b)
	for b.Loop() {
		w.create(b, lvm2.Spec{Name: "v", Size: 8 * mib, Tags: []string{"uid=1"}})
		testcheck.NoError(b, w.group.Remove(w.ctx, "v"))
	}
}

func BenchmarkCreateAndRemoveBare(b *testing.B) {
	w := newBenchmark(b)
	for b.Loop() {
		w.lvm(b, "lvcreate", "-q", "-y", "-an", "-Zn", "-Wn", "--contiguous", "y", "-L", "8m", "-n", "v", "--addtag",
			"uid=1", w.group.Name())
		w.lvm(b, "lvremove", "-q", "-y", w.group.Name()+"/v")
	}
}

func BenchmarkActivateAndDeactivate(b *testing.B) {
	w := newBenchmark(b)
	w.create(b, lvm2.Spec{Name: "v", Size: 8 * mib})
	for b.Loop() {
		w.activate(b, "v")
		testcheck.NoError(b, w.group.Deactivate(w.ctx, "v"))
	}
}

func BenchmarkExtend(b *testing.B) {
	w := newBenchmark(b)
	w.create(b, lvm2.Spec{Name: "v", Size: 8 * mib})
	w.activate(b, "v")
	grown := 8 * mib
	for b.Loop() {
		if grown += 4 * mib; grown > 240*mib {
			b.StopTimer()
			testcheck.NoError(b, w.group.Remove(w.ctx, "v"))
			w.create(b, lvm2.Spec{Name: "v", Size: 8 * mib})
			w.activate(b, "v")
			grown = 12 * mib
			b.StartTimer()
		}
		_, err := w.group.Extend(w.ctx, "v", grown)
		testcheck.NoError(b, err)
	}
}

func BenchmarkClone(b *testing.B) {
	w := newBenchmark(b)
	w.create(b, lvm2.Spec{Name: "v", Size: 32 * mib})
	fill(b, w.activate(b, "v"), 1)
	for b.Loop() {
		_, err := w.group.Clone(w.ctx, "v", lvm2.Spec{Name: "c"})
		testcheck.NoError(b, err)
		b.StopTimer()
		testcheck.NoError(b, w.group.Remove(w.ctx, "c"))
		b.StartTimer()
	}
}

// Every operation reads one report of this size.
func BenchmarkReport(b *testing.B) {
	for _, count := range []int{1, 100} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			w := newBenchmark(b)
			for i := range count {
				w.create(b, lvm2.Spec{Name: fmt.Sprintf("v%d", i), Size: 4 * mib})
			}
			for b.Loop() {
				_, err := w.group.Report(w.ctx)
				testcheck.NoError(b, err)
			}
		})
	}
}

func BenchmarkReportBare(b *testing.B) {
	w := newBenchmark(b)
	for b.Loop() {
		w.lvm(b, "vgs", w.group.Name())
	}
}
