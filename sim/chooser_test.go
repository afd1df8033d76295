package sim_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/volsim/volsim/sim"
)

// choicesOf returns the choices of a chooser among so many alternatives each.
func choicesOf(c sim.Chooser, among ...int) []int {
	var made []int
	for _, n := range among {
		made = append(made, c.Choose(n))
	}
	return made
}

// Each byte is a choice, and the default order follows the last.
func TestBytes(t *testing.T) {
	for _, c := range []struct {
		data  string
		among []int
		want  []int
	}{
		{"", []int{2, 300, 5}, []int{0, 0, 0}},
		{"\x00\x00", []int{2, 300, 5}, []int{0, 0, 0}},
		{"\x01\x02", []int{2, 3, 5}, []int{1, 2, 0}},
		{"\x05\x02", []int{2, 3, 5}, []int{1, 2, 0}},
		{"\x00\x02", []int{2, 3, 5}, []int{0, 2, 0}}, // one byte less is one choice less
		{"\x05\x01\x02", []int{300, 3}, []int{261, 2}},
		{"\x05", []int{300, 3}, []int{5, 0}},
	} {
		if got := choicesOf(sim.NewBytes([]byte(c.data)), c.among...); !slices.Equal(got, c.want) {
			t.Errorf("%q among %v: %v, want %v", c.data, c.among, got, c.want)
		}
	}
}

// The input of a fuzz test is the order of events; see FuzzBinding of package simtest.
func ExampleNewBytes() {
	input := sim.NewBytes([]byte{1, 0, 7})
	fmt.Println(input.Choose(2), input.Choose(2), input.Choose(3), input.Choose(4))
	// Output: 1 0 1 0
}
