package vmdiff

import (
	"testing"

	volumetesting "k8s.io/kubernetes/pkg/volume/testing"

	"github.com/volsim/volsim/conformance/histories"
	"github.com/volsim/volsim/sim"
)

// stories show each difference that is there on purpose.
var stories = []struct {
	what    string
	history history
}{
	{endedUnmounted, history{
		{acts: []act{runPod{"p1", []string{volumetesting.FailOnSetupVolumeName}}}},
		{acts: []act{endPod{"p1", ends}}},
	}},
	{attachFailed, history{
		{acts: []act{setting{volumetesting.TimeoutAttachNode, true}}},
		{acts: []act{runPod{"p1", []string{"a"}}}},
		{acts: []act{endPod{"p1", isDeleted}}},
	}},
	{attachedAgain, history{
		{acts: []act{setting{"node", true}}},
		{acts: []act{runPod{"p1", []string{"a"}}}},
		{acts: []act{restart{}}},
	}},
	{kept, history{
		{acts: []act{runPod{"p1", []string{"a"}}}},
		{acts: []act{restart{}}, fault: histories.Fault{Kind: sim.FaultRefused, Request: "get persistentvolumeclaims"}},
	}},
	{patient, history{
		{acts: []act{runPod{"p2", []string{"single"}}}},
		{acts: []act{runPod{"p1", []string{"single"}}}},
		{acts: []act{nothing{}}},
		{acts: []act{nothing{}}},
		{acts: []act{endPod{"p2", isDeleted}}},
	}},
	{deviceLeft, history{
		{acts: []act{asDevices{}}},
		{acts: []act{runPod{"p1", []string{volumetesting.TimeoutAndFailOnSetupVolumeName}}}},
	}},
}

// TestDeliberates has a story for each difference that may be, and each story shows its own.
func TestDeliberates(t *testing.T) {
	told := map[string]bool{}
	for _, s := range stories {
		told[s.what] = true
		if v := pair.Compare(t, s.history, histories.Thorough, spoil{}); v.Undecided != s.what {
			t.Errorf("%s\ndid not show: %s, but %+v", s.history, s.what, v)
		}
	}
	for _, e := range deliberates {
		if !told[e.what] {
			t.Errorf("no story shows: %s", e.what)
		}
	}
}
