package dynamicresources_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/scheduler/internal/dynamicresources"
	"github.com/volsim/volsim/scheduler/internal/framework"
)

// TestPostFilter: upstream's plugin fails if it has not seen the pod before.
func TestPostFilter(t *testing.T) {
	p := dynamicresources.New(framework.Handle{})
	pod, err := framework.NewPodInfo(&corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	cycle := framework.NewCycle(pod, framework.NewSnapshot(nil, nil))
	_, _, status := p.PostFilter(t.Context(), cycle, nil)
	if status.CodeOf() != framework.Error || status.Message() != "not found" {
		t.Errorf("before PreFilter: %+v", status)
	}
	if _, status := p.PreFilter(cycle); status.CodeOf() != framework.Skip {
		t.Errorf("PreFilter: %+v", status)
	}
	_, _, status = p.PostFilter(t.Context(), cycle, nil)
	if status.CodeOf() != framework.Unschedulable || status.Message() != "no new claims to deallocate" {
		t.Errorf("after PreFilter: %+v", status)
	}
}
