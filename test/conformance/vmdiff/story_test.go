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

// stories show each deliberate difference.
var stories = []struct {
	name    string
	history history
}{
	{terminatedUnmounted, history{
		{acts: []act{createPod{"p1", []string{volumetesting.FailOnSetupVolumeName}}}},
		{acts: []act{endPod{"p1", isTerminated}}},
	}},
	{attachFailed, history{
		{acts: []act{attachSetting{volumetesting.TimeoutAttachNode, true}}},
		{acts: []act{createPod{"p1", []string{"a"}}}},
		{acts: []act{endPod{"p1", isDeleted}}},
	}},
	{attachedAgain, history{
		{acts: []act{attachSetting{"node", true}}},
		{acts: []act{createPod{"p1", []string{"a"}}}},
		{acts: []act{restart{}}},
	}},
	{kept, history{
		{acts: []act{createPod{"p1", []string{"a"}}}},
		{acts: []act{restart{}}, fault: histories.Fault{Kind: sim.FaultRefused, Request: "get persistentvolumeclaims"}},
	}},
	{backoffKept, history{
		{acts: []act{createPod{"p2", []string{"single"}}}},
		{acts: []act{createPod{"p1", []string{"single"}}}},
		{acts: []act{nothing{}}},
		{acts: []act{nothing{}}},
		{acts: []act{endPod{"p2", isDeleted}}},
	}},
	{deviceUnmapped, history{
		{acts: []act{useDevices{}}},
		{acts: []act{createPod{"p1", []string{volumetesting.TimeoutAndFailOnSetupVolumeName}}}},
	}},
}

// TestDeliberateDifferencesHaveStories checks that a story shows each deliberate difference.
func TestDeliberateDifferencesHaveStories(t *testing.T) {
	shown := map[string]bool{}
	for _, s := range stories {
		shown[s.name] = true
		if v := pair.Compare(t, s.history, mutation{}); v.Undecided != s.name {
			t.Errorf("%s\nwant: %s; got %+v", s.history, s.name, v)
		}
	}
	for _, one := range deliberate {
		if !shown[one.Name] {
			t.Errorf("no story shows: %s", one.Name)
		}
	}
}

// TestExcusesAreNarrow checks that a mutant with another fault is found where a difference is
// excused.
func TestExcusesAreNarrow(t *testing.T) {
	forgetful := mutation{plugin: func(p *ourPlugin) plugins.Plugin { return forgetful{attaching{p}} }}
	tests := []struct {
		name    string
		history history
	}{
		{kept, history{
			{acts: []act{createPod{"p1", []string{"a", "b"}}}},
			{acts: []act{deleteClaim{"b", true}, restart{}}},
		}},
		{attachedAgain, history{
			{acts: []act{attachSetting{"node", true}}},
			{acts: []act{createPod{"p1", []string{"a"}}}},
			{acts: []act{restart{}}},
		}},
	}
	for _, tt := range tests {
		if v := pair.Compare(t, tt.history, mutation{}); v.Undecided != tt.name {
			t.Errorf("%s\nwant: %s; got %+v", tt.history, tt.name, v)
		}
		if v := pair.Compare(t, tt.history, forgetful); v.Diff == "" {
			t.Errorf("%s\nthe mutant that does not set up reconstructed volumes is not found; undecided: %s", tt.history, v.Undecided)
		}
	}
}

// A forgetful plugin treats reconstructed volumes as set up.
type forgetful struct{ attaching }

func (f forgetful) SetUp(ctx context.Context, spec *plugins.Spec, pod *corev1.Pod, use plugins.MountOptions) error {
	if use.Reconstructed {
		return nil
	}
	return f.attaching.SetUp(ctx, spec, pod, use)
}
