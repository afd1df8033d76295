package vmdiff

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	volumetesting "k8s.io/kubernetes/pkg/volume/testing"

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/test/conformance/histories"
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

// TestExcusesAreNarrow: a kubelet that is wrong in another thing, in the very situation that an excuse is for, is found.
func TestExcusesAreNarrow(t *testing.T) {
	forgetful := spoil{plugin: func(p *ourPlugin) plugins.Plugin { return forgetful{attaching{p}} }}
	tests := []struct {
		what    string
		history history
	}{
		{kept, history{
			{acts: []act{runPod{"p1", []string{"a", "b"}}}},
			{acts: []act{dropClaim{"b", true}, restart{}}},
		}},
		{attachedAgain, history{
			{acts: []act{setting{"node", true}}},
			{acts: []act{runPod{"p1", []string{"a"}}}},
			{acts: []act{restart{}}},
		}},
	}
	for _, tt := range tests {
		if v := pair.Compare(t, tt.history, histories.Thorough, spoil{}); v.Undecided != tt.what {
			t.Errorf("%s\ndid not show: %s, but %+v", tt.history, tt.what, v)
		}
		if v := pair.Compare(t, tt.history, histories.Thorough, forgetful); v.Diff == "" {
			t.Errorf("%s\nwhat sets up nothing again that it finds is not found, for: %s", tt.history, v.Undecided)
		}
	}
}

// forgetful takes what a kubelet finds for set up.
type forgetful struct{ attaching }

func (f forgetful) SetUp(ctx context.Context, spec *plugins.Spec, pod *corev1.Pod, use plugins.MountOptions) error {
	if use.Reconstructed {
		return nil
	}
	return f.attaching.SetUp(ctx, spec, pod, use)
}
