package simtest_test

import (
	"testing"
	"time"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/scenario"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/simtest"
)

func TestCorrect(t *testing.T) {
	seeded(t, "3")
	t.Chdir(t.TempDir())
	for name, w := range map[string]scenario.Scenario{
		"bind":  {Parts: []string{"pvcontroller", "pvcprotection", "pvprotection"}, Extra: []cluster.Part{reserver}},
		"whole": {},
	} {
		start := time.Now()
		l := listen(t, func(t testing.TB) {
			risks, _ := sim.ParseRisks("conflict(0.1), crash(pvcontroller, 1), refused(0.05), lost(0.05)")
			ws := []simtest.Workload{simtest.Claims(1, 3), simtest.Volumes(0, 3), simtest.Pods(0, 2)}
			if name == "whole" {
				ws = append([]simtest.Workload{simtest.Classes(0, 1)}, ws...)
			}
			simtest.Check(t, w, simtest.Budget{Holds: 1, Schedules: 30, Restarts: true, Faults: risks}, ws...)
		})
		t.Log(name, time.Since(start), l.failed, l.said.String())
	}
}
