package framework

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
)

// A Cycle is the decision about one pod. It keeps the states of plugins between their calls, and until the
// pod is assigned.
//
// Upstream: pkg/scheduler/framework CycleState (v1.36).
type Cycle struct {
	Pod         *PodInfo
	Snapshot    *Snapshot
	SkipFilters []string // the plugins whose PreFilter had nothing to do
	states      map[string]any
}

// NewCycle returns the cycle of a pod.
func NewCycle(pod *PodInfo, on *Snapshot) *Cycle { return &Cycle{Pod: pod, Snapshot: on} }

// A Cloner is a state that AddPod or RemovePod change.
type Cloner interface{ Clone() any }

// Write sets the state of a key.
func (c *Cycle) Write(key string, state any) {
	if c.states == nil {
		c.states = map[string]any{}
	}
	c.states[key] = state
}

// Read returns the state of a key, nil if there is none.
func (c *Cycle) Read(key string) any { return c.states[key] }

// Clone returns a copy for a supposition: changes of its states by AddPod or RemovePod do not affect the
// cycle.
func (c *Cycle) Clone() *Cycle {
	clone := *c
	clone.states = maps.Clone(c.states)
	for key, state := range clone.states {
		if s, ok := state.(Cloner); ok {
			clone.states[key] = s.Clone()
		}
	}
	return &clone
}

// APIPod returns the pod of the cycle.
func (c *Cycle) APIPod() *corev1.Pod { return c.Pod.Pod }
