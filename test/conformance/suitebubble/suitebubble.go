// Package suitebubble is for tests that run a suite of upstream's end-to-end tests and its cluster in a bubble of
// testing/synctest.
package suitebubble

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// CheckLeaks fails the test if goroutines of the cluster are left in the bubble. Defer it before the bubble begins. Goroutines
// of the suite are left: ginkgo waits for signals, and some tests do not stop their watches.
func CheckLeaks(t *testing.T) {
	r := recover()
	if r == nil {
		return
	}
	if !strings.HasPrefix(fmt.Sprint(r), "deadlock: main bubble goroutine has exited") {
		panic(r)
	}
	buf := make([]byte, 8<<20)
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		head, frames, _ := strings.Cut(stack, "\n")
		if strings.Contains(head, "synctest bubble") && strings.Contains(frames, "github.com/volsim/volsim/") &&
			!strings.Contains(frames, "testing.tRunner") {
			t.Errorf("a goroutine of the cluster is left:\n%s", stack)
		}
	}
}
