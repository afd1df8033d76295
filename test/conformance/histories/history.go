package histories

import (
	"fmt"
	"slices"
	"strings"
)

// History is what a world lives through, step by step.
type History[S fmt.Stringer] []S

// String gives a line for each step.
func (h History[S]) String() string {
	var b strings.Builder
	for i, s := range h {
		fmt.Fprintf(&b, "%2d  %s\n", i+1, s)
	}
	return b.String()
}

// State is what there is in a world after a step, in lines; nil where that is not looked at.
type State []string

// Without are the lines that another state has not.
func (s State) Without(other State) State {
	return slices.DeleteFunc(slices.Clone(s), func(line string) bool { return slices.Contains(other, line) })
}

// Execution is what became of a history. W is what else is known of the world.
type Execution[W any] struct {
	States    []State // after each step
	Undecided string  // why the last of them is not to be compared; "": it is
	World     W
}

// Delta is two states after the same history.
type Delta[S fmt.Stringer, W any] struct {
	History                 History[S]
	Upstream, Ours          State
	UpstreamWorld, OurWorld W // of upstream's world, and of ours
}

// Lines are those that only one of the states has.
func (d Delta[S, W]) Lines() []string {
	return append(d.Upstream.Without(d.Ours), d.Ours.Without(d.Upstream)...)
}

// String shows the lines that are in one state only.
func (d Delta[S, W]) String() string {
	var b strings.Builder
	for _, line := range d.Upstream.Without(d.Ours) {
		b.WriteString("- " + line + "\n")
	}
	for _, line := range d.Ours.Without(d.Upstream) {
		b.WriteString("+ " + line + "\n")
	}
	return b.String()
}
