package goroutine_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/volsim/volsim/internal/goroutine"
)

//go:noinline
func grow(n int) byte {
	var frame [1 << 10]byte
	frame[n%len(frame)] = byte(n)
	if n == 0 {
		return frame[0]
	}
	return grow(n-1) + frame[n%len(frame)]
}

// A goroutine keeps its ID when its stack grows and when the garbage collector runs. Goroutines that
// run at once have different ones.
func TestID(t *testing.T) {
	if goroutine.ID() == 0 {
		t.Skipf("%s: goroutines are not distinguished", runtime.GOARCH)
	}
	const n = 100
	ids, release := make(chan uintptr), make(chan bool)
	for range n {
		go func() {
			id := goroutine.ID()
			grow(100)
			runtime.GC()
			if goroutine.ID() != id {
				id = 0
			}
			ids <- id
			<-release
		}()
	}
	seen := map[uintptr]bool{0: true, goroutine.ID(): true}
	for range n {
		id := <-ids
		if seen[id] {
			t.Fatalf("ID %x twice", id)
		}
		seen[id] = true
	}
	close(release)
}

func TestOriginOf(t *testing.T) {
	stacks := make(chan string)
	go func() { stacks <- goroutine.Stack() }()
	origin, ok := goroutine.OriginOf(<-stacks)
	if !ok || origin.Parent != goroutine.Number() || origin.Function != "goroutine_test.TestOriginOf" ||
		!strings.HasPrefix(origin.Position, "goroutine_test.go:") {
		t.Errorf("origin %+v, %v", origin, ok)
	}
	if !strings.Contains(goroutine.Stacks(), "TestOriginOf") {
		t.Error("the stacks lack this goroutine")
	}
}

func BenchmarkID(b *testing.B) {
	for b.Loop() {
		goroutine.ID()
	}
}
