package simtest

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/volsim/volsim/internal/usercode"
)

// storyMax is the number of last records that a failure shows.
const storyMax = 1000

// report returns the story and what repeats it.
func (b *BubbleWorld) report() string {
	if b.strategy != nil {
		return fmt.Sprintf("%s\nschedule: %q", b.story(), b.strategy.applied())
	}
	return fmt.Sprintf("%s\nreplay with &sim.Replay{Choices: %#v}", b.story(), trimmed(b.choices))
}

// story returns the actions of the run as text. Nothing may be recorded meanwhile.
func (b *BubbleWorld) story() string {
	var s strings.Builder
	s.WriteString("trace (step, time, client, action, outcome; * marks a deviation from the default order):\n")
	records := b.log.Records()
	if more := len(records) - storyMax; more > 0 {
		fmt.Fprintf(&s, "  … %d earlier records\n", more)
		records = records[more:]
	}
	for _, r := range records {
		note, deviates := b.notes[r.Step]
		mark := " "
		if deviates {
			mark = "*"
		}
		fmt.Fprintf(&s, "%s %3d %8s  %-12s %s  (%s)", mark, r.Step, r.At, r.Task, r.Action, r.Result())
		if deviates {
			s.WriteString("  " + note)
		}
		s.WriteByte('\n')
	}
	return strings.TrimSuffix(s.String(), "\n")
}

// trimmed drops the zeros at the end, which a replay implies.
func trimmed(choices []int) []int {
	n := len(choices)
	for n > 0 && choices[n-1] == 0 {
		n--
	}
	return append([]int{}, choices[:n]...)
}

// reportLeaks fails a test whose bubble did not end because goroutines are left. They stay there;
// the clock stands still.
func (b *BubbleWorld) reportLeaks(t *testing.T, r any) {
	t.Helper()
	err, ok := r.(error)
	if b == nil || !b.ended || !ok || !strings.HasPrefix(err.Error(), "deadlock: ") {
		panic(r)
	}
	t.Fatalf("goroutines of the bubble are left %s after the run (stop informers with Context, shut queues down):\n%s",
		bubbleGrace, strings.Join(goroutinesOf(b.id), "\n"))
}

// bubbleID returns the ID of this goroutine's bubble, "" outside a bubble.
func bubbleID() string {
	var head [128]byte
	return bubbleOf(string(head[:runtime.Stack(head[:], false)]))
}

// bubbleOf returns the ID of the bubble in the first line of a stack: "goroutine 7 [select
// (durable), synctest bubble 3]:".
func bubbleOf(stack string) string {
	first, _, _ := strings.Cut(stack, "\n")
	_, after, _ := strings.Cut(first, ", synctest bubble ")
	id, _, _ := strings.Cut(after, "]")
	return id
}

// goroutinesOf returns, for each goroutine of a bubble, its state, its location and the function
// that started it, sorted. It leaves out the calling goroutine and the one of synctest.
func goroutinesOf(id string) []string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var all []string
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		if bubbleOf(stack) != id {
			continue
		}
		if told, ok := describeStack(stack); ok {
			all = append(all, "  "+told)
		}
	}
	slices.Sort(all)
	return all
}

// describeStack returns a stack in one line: the innermost and the outermost frame outside the
// standard library and Bubble.
func describeStack(stack string) (string, bool) {
	lines := strings.Split(stack, "\n")
	_, state, _ := strings.Cut(lines[0], "[")
	state, _, _ = strings.Cut(state, ", synctest")
	state = strings.TrimSuffix(state, " (durable)")
	var frames []string
	starter := ""
	for i := 1; i+1 < len(lines); i += 2 {
		function := strings.TrimSpace(lines[i])
		place, _, _ := strings.Cut(strings.TrimSpace(lines[i+1]), " +")
		if by, ok := strings.CutPrefix(function, "created by "); ok {
			by, _, _ = strings.Cut(by, " in goroutine")
			starter = by + " (" + place + ")"
		} else if !usercode.IsStandard(place) && !strings.Contains(function, "/simtest.runBubble") {
			frames = append(frames, function[:max(0, strings.LastIndexByte(function, '('))]+" ("+place+")")
		}
	}
	switch {
	case len(frames) == 0, state == "running", state == "synctest.Run":
		return "", false
	case len(frames) == 1:
		return fmt.Sprintf("%s: %s, started by %s", state, frames[0], starter), true
	}
	return fmt.Sprintf("%s: %s, called from %s, started by %s", state, frames[0], frames[len(frames)-1], starter), true
}
