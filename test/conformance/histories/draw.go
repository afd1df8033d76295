package histories

import (
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"
)

// OneOf draws one of its arguments. It shrinks to the first; repeated arguments are drawn more
// often.
func OneOf[T any](of ...T) *rapid.Generator[T] { return rapid.SampledFrom(of) }

// OneIn reports whether an event of probability 1/n occurs.
func OneIn(t *rapid.T, n int, label string) bool {
	return rapid.IntRange(0, n-1).Draw(t, label) == n-1
}

// DrawSteps draws up to scenes short lists of up to steps steps, and joins them. rapid's lists are
// short, and shrink well.
func DrawSteps[S fmt.Stringer](t *rapid.T, step *rapid.Generator[S], steps, scenes int) History[S] {
	return slices.Concat(rapid.SliceOfN(rapid.SliceOfN(step, 1, steps), 1, scenes).Draw(t, "scenes")...)
}

// Join returns the texts of values.
func Join[A fmt.Stringer](all []A) string {
	var texts []string
	for _, a := range all {
		texts = append(texts, a.String())
	}
	return strings.Join(texts, "; ")
}
