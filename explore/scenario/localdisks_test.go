package scenario_test

import (
	"strings"
	"testing"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// localWorld has a RAM disk that a pod uses, and that is cleaned when its claim is deleted.
const localWorld = `local-disks: fast=/mnt/fast
user alice
  disk node-2 /mnt/fast/ram 64Mi
  create class fast provisioner=kubernetes.io/no-provisioner binding=WaitForFirstConsumer
  create claim data 32Mi class=fast
  create pod web data
  wait pod web Running
  write pod web data
  delete pod web
  wait pod web gone
  delete claim data
  disk node-1 /dev/sdb 1Gi block=true
`

// TestLocalDisks runs the world under other schedules, with every rule, and with faults.
func TestLocalDisks(t *testing.T) {
	testcheck.Stepped(t)
	s, err := scenario.Parse("local", localWorld)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.String(); got != localWorld {
		t.Errorf("written as\n%s", got)
	}
	faults, err := sim.ParseFaultSpecs("conflict(0.05), driver-lost Internal(0.02), crash(2), reboot(node-2, 1)")
	if err != nil {
		t.Fatal(err)
	}
	for _, search := range []struct {
		strategy explore.Strategy
		faults   sim.FaultSpecs
		count    int
	}{{explore.Holds, nil, 0}, {explore.Random, nil, 100}, {explore.Random, faults, 100}} {
		report, err := explore.Search(t.Context(), s, explore.Config{Strategy: search.strategy, Faults: search.faults, Count: search.count, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		if report.Failure != nil {
			t.Fatalf("%v, faults %v:\n%s", search.strategy, search.faults, scenario.Story(report.Failure.Scenario, report.Failure.Result))
		}
		t.Logf("%s: %d schedules: %s", search.strategy, report.Schedules, report.Complete)
	}
	for _, wrong := range []string{
		"local-disks:", "local-disks: fast", "local-disks: fast=mnt", "user a\n  disk node-1 /x", "user a\n  disk node-1 /x big",
		"user a\n  disk node-1 /x 1Gi block=no",
	} {
		if _, err := scenario.Parse("wrong", wrong); err == nil || !strings.Contains(err.Error(), "want") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}
