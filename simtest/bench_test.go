package simtest_test

import (
	"runtime"
	"testing"

	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/simtest"
)

// Two claims against two volumes, which the PersistentVolume controller binds; in a different order each time.
func BenchmarkBindTwoByTwo(b *testing.B) {
	schedules(b, simtest.Parse(b, `
components: pvcontroller
user admin
  create volume v1 1Gi
  create volume v2 1Gi
user alice
  create claim c1 1Gi class=
  create claim c2 1Gi class=
`))
}

// One pod with one volume, which is provisioned, attached and mounted; then both are deleted. In a different order each time.
func BenchmarkLifecycle(b *testing.B) {
	schedules(b, simtest.Parse(b, `
nodes: 1
user alice
  create claim c1 1Gi
  create pod p1 c1
  wait pod p1 Running
  delete pod p1
  wait pod p1 gone
  delete claim c1
  wait claim c1 gone
`))
}

// schedules runs a scenario under schedules that are drawn, all rules at work.
func schedules(b *testing.B, s *scenario.Scenario) {
	b.Helper()
	steps := 0
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for seed := uint64(0); b.Loop(); seed++ {
		r, err := s.Run(b.Context(), scenario.Options{Strategy: sim.NewRandom(seed)})
		if err != nil || r.Failure != nil {
			b.Fatalf("seed %d: %v, %v", seed, r, err)
		}
		steps += r.Steps
	}
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "schedules/s")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/1e3/float64(steps), "µs/step")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(steps), "allocs/step")
	b.ReportMetric(float64(steps)/float64(b.N), "steps/schedule")
}
