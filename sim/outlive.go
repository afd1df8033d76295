package sim

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/volsim/volsim/internal/goroutine"
)

// Bounds of the search for goroutines that outlive their task, for all worlds of a Pool: in a search
// that is the first runs. Counting costs some 15 ns, and a look stops the program for some 100 µs.
const (
	countedMax = 1000 // works of tasks around which goroutines are counted
	looksMax   = 8
)

// coroutines is the number of coroutines in all worlds.
var coroutines atomic.Int64

// otherGoroutines returns the number of goroutines that are not coroutines. Worlds and tests that
// run in parallel change it, too.
func otherGoroutines() int { return runtime.NumGoroutine() - int(coroutines.Load()) }

// checkOutlived makes the run fail if a task, whose work has ended, has started a goroutine that goes
// on. It is called when there are more goroutines than before, and reports nothing that it is not
// certain of: the goroutine runs code of the user, was started by the task, and is blocked.
func (s *Stepped) checkOutlived(t *Task) {
	if s.pool.looks >= looksMax || s.guard.failed.Load() {
		return
	}
	s.pool.looks++
	var before []startedGoroutine
	for range 3 {
		now := startedBy(t.co.number)
		for _, g := range now {
			if g.blocked && slices.Contains(before, g) { // twice, as one that is about to end may be blocked, too
				s.guard.fail(fmt.Errorf("component %s started a goroutine in %s that outlives the task %s; "+
					"a stepped world runs one task at a time: end it before the reconciler returns, "+
					"or run this code with simtest.Bubble", t.process.name, g.Origin, t.full))
				return
			}
		}
		if before = now; len(now) == 0 {
			return
		}
		for range 100 {
			runtime.Gosched()
		}
		time.Sleep(time.Millisecond)
	}
}

// A startedGoroutine is a goroutine that a task started.
type startedGoroutine struct {
	number  int
	blocked bool // another goroutine, or time, must wake it
	goroutine.Origin
}

// blockedStates are how the states of blocked goroutines begin.
var blockedStates = []string{"chan receive", "chan send", "select", "sleep", "sync.Cond.Wait", "sync.WaitGroup.Wait"}

// startedBy returns the goroutines with code of the user that a goroutine started.
func startedBy(parent int) []startedGoroutine {
	var all []startedGoroutine
	for stack := range strings.SplitSeq(goroutine.Stacks(), "\n\n") {
		head, frames, _ := strings.Cut(stack, ":\n")
		var number int
		if _, err := fmt.Sscanf(head, "goroutine %d [", &number); err != nil {
			continue
		}
		_, state, _ := strings.Cut(head, "[")
		blocked := slices.ContainsFunc(blockedStates, func(s string) bool { return strings.HasPrefix(state, s) })
		if origin, ok := goroutine.OriginOf(frames); ok && origin.Parent == parent && goroutine.HasUserFrame(frames) {
			all = append(all, startedGoroutine{number, blocked, origin})
		}
	}
	return all
}
