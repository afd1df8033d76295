package usercode_test

import (
	"runtime"
	"slices"
	"testing"

	"github.com/volsim/volsim/internal/usercode"
)

// stack returns the call stack of its caller.
func stack() []uintptr {
	callers := make([]uintptr, 32)
	return callers[:runtime.Callers(2, callers)]
}

// The first frame of the user's is named, from the root of the module, with and without -trimpath.
func TestPlace(t *testing.T) {
	var got string
	// The standard library calls it.
	slices.SortFunc([]int{1, 2}, func(a, b int) int {
		got = usercode.Place(stack())
		return a - b
	})
	if got != "internal/usercode/usercode_test.go:22" {
		t.Errorf("got %q", got)
	}
	if got := usercode.Place(nil); got != "" {
		t.Errorf("no stack: %q", got)
	}
}

// Frames of the standard library alone are not the user's.
func TestPlaceOutsideUserCode(t *testing.T) {
	places := make(chan string)
	go func() { places <- usercode.Place(stack()[1:]) }() // runtime.goexit
	if got := <-places; got != "" {
		t.Errorf("got %q", got)
	}
}

func TestIsStandard(t *testing.T) {
	callers := runtime.CallersFrames(stack())
	ours, _ := callers.Next()
	theirs, _ := callers.Next() // testing.tRunner
	if usercode.IsStandard(ours.File) || !usercode.IsStandard(theirs.File) {
		t.Errorf("%s: %t, %s: %t", ours.File, usercode.IsStandard(ours.File), theirs.File, usercode.IsStandard(theirs.File))
	}
}
