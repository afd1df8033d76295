package histories

import (
	"fmt"
	"slices"
	"strings"
)

// A Difference is a deliberate difference between the implementations.
type Difference[S fmt.Stringer, W any] struct {
	Name string
	// Explains reports whether it explains a line that only one of the states has. The line is
	// about a disk, or about none ("").
	Explains func(d Delta[S, W], disk, line string) bool
}

// ExcuseBy returns a function for Pair.Excuse. It returns the names of the differences that explain
// all lines, or "" if a line has no explanation. diskOf returns the disk of a line.
func ExcuseBy[S fmt.Stringer, W any](all []Difference[S, W], diskOf func(line string) string) func(Delta[S, W]) string {
	return func(d Delta[S, W]) string {
		var names []string
		for _, line := range d.Lines() {
			disk := diskOf(line)
			i := slices.IndexFunc(all, func(one Difference[S, W]) bool { return one.Explains(d, disk, line) })
			if i < 0 {
				return ""
			}
			names = append(names, all[i].Name)
		}
		slices.Sort(names)
		return strings.Join(slices.Compact(names), "; ")
	}
}
