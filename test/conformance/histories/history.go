package histories

import (
	"fmt"
	"slices"
	"strings"
)

// A History is a list of steps of a world.
type History[S fmt.Stringer] []S

// String returns one line for each step.
func (h History[S]) String() string {
	var b strings.Builder
	for i, s := range h {
		fmt.Fprintf(&b, "%2d  %s\n", i+1, s)
	}
	return b.String()
}

// A State is the state of a world after a step, in lines. It is nil if it is not compared.
type State []string

// Without returns the lines that other does not have.
func (s State) Without(other State) State {
	return slices.DeleteFunc(slices.Clone(s), func(line string) bool { return slices.Contains(other, line) })
}

// An Execution is the result of executing a history. W holds further facts about the world.
type Execution[W any] struct {
	States    []State // after each step
	Undecided string  // why the last of them is not to be compared; "": it is
	World     W
}

// A Delta holds two states after the same history.
type Delta[S fmt.Stringer, W any] struct {
	History                 History[S]
	Upstream, Ours          State
	UpstreamWorld, OurWorld W // of upstream's world, and of ours
}

// Lines returns the lines that only one of the states has.
func (d Delta[S, W]) Lines() []string {
	return append(d.Upstream.Without(d.Ours), d.Ours.Without(d.Upstream)...)
}

// String returns the lines that only one of the states has, marked with - (upstream) and + (ours).
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
