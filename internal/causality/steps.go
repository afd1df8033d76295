package causality

import (
	"fmt"
	"slices"
	"strings"
)

// Steps returns "step 4", "steps 4 and 7", "steps 4, 7 and 9".
func Steps(numbers []int) string {
	words := make([]string, len(numbers))
	for i, n := range numbers {
		words[i] = fmt.Sprint(n)
	}
	if len(words) == 1 {
		return "step " + words[0]
	}
	last := len(words) - 1
	return "steps " + strings.Join(words[:last], ", ") + " and " + words[last]
}

// StepsSince returns the steps of later writes than a decision in the step decided, in words.
// Writes of the same step are not named by its number alone: a step contains several actions if one
// of them comes from outside the world.
func StepsSince(decided int, numbers []int) string {
	later := slices.DeleteFunc(slices.Clone(numbers), func(n int) bool { return n == decided })
	words := "a later write"
	if len(numbers)-len(later) > 1 {
		words = "later writes"
	}
	switch len(later) {
	case len(numbers):
		return Steps(later)
	case 0:
		return words + " in the same step"
	default:
		return words + " in the same step, and " + Steps(later)
	}
}
