package reuse_test

import (
	"testing"

	"github.com/volsim/volsim/internal/reuse"
)

// TestValuesAreEmptyInTheNextWorld checks that the next world gets the same values, empty.
func TestValuesAreEmptyInTheNextWorld(t *testing.T) {
	m := &reuse.Memory{}
	number, counts := reuse.New[int](m), reuse.Map[string, int](m)
	*number, counts["a"] = 7, 1
	if other := reuse.New[int](m); other == number {
		t.Error("one world got a value twice")
	}
	m.Rewind()
	next, empty := reuse.New[int](m), reuse.Map[string, int](m)
	if next != number || *next != 0 || len(empty) != 0 {
		t.Errorf("value %d (the same: %v), map %v; want both again, empty", *next, next == number, empty)
	}
	empty["b"] = 2
	if len(counts) != 1 {
		t.Error("the map is another one")
	}
}

// TestGetLeavesValues checks that Get leaves to the caller what a value keeps.
func TestGetLeavesValues(t *testing.T) {
	m := &reuse.Memory{}
	first, used := reuse.Get[[]int](m)
	if used {
		t.Error("a new value is used")
	}
	*first = []int{1}
	m.Rewind()
	if again, used := reuse.Get[[]int](m); !used || len(*again) != 1 {
		t.Errorf("used %v, value %v; want that of the first world", used, *again)
	}
}

// TestNilMemoryAllocates checks that no memory keeps nothing.
func TestNilMemoryAllocates(t *testing.T) {
	if a, b := reuse.New[int](nil), reuse.New[int](nil); a == b {
		t.Error("the same value twice")
	}
	if a, b := reuse.Map[int, int](nil), reuse.Map[int, int](nil); a == nil || b == nil {
		t.Error("a nil map")
	}
}
