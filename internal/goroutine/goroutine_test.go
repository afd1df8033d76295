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

func TestHasUserFrame(t *testing.T) {
	for _, c := range []struct {
		stack string
		want  bool
	}{
		{goroutine.Stack(), true},
		{"shop/orders.(*R).Reconcile.func1()\n\tshop/orders/r.go:12 +0x1\ncreated by shop/orders.(*R).Reconcile in goroutine 5\n\tshop/orders/r.go:11 +0x2", true},
		{"main.main.func1()\n\t/home/x/main.go:12 +0x1\ncreated by main.main in goroutine 1\n\t/home/x/main.go:11 +0x2", true},
		{"net/http.(*persistConn).readLoop(0x1)\n\tnet/http/transport.go:12 +0x1\n" +
			"created by net/http.(*Transport).dialConn in goroutine 5\n\tnet/http/transport.go:11 +0x2", false},
		{"k8s.io/klog/v2.(*flushDaemon).run.func1()\n\tk8s.io/klog/v2@v2.140.0/klog.go:12 +0x1\n" +
			"created by k8s.io/klog/v2.(*flushDaemon).run in goroutine 5\n\tk8s.io/klog/v2@v2.140.0/klog.go:11 +0x2", false},
		{"golang.org/x/sync/errgroup.(*Group).Go.func1()\n\tgolang.org/x/sync@v0.20.0/errgroup/errgroup.go:12 +0x1\n" +
			"example.com/shop.work()\n\texample.com/shop/r.go:12 +0x1\n" +
			"created by golang.org/x/sync/errgroup.(*Group).Go in goroutine 5\n\tgolang.org/x/sync@v0.20.0/errgroup/errgroup.go:11 +0x2", true},
		{"github.com/volsim/volsim/fake.(*pump).run()\n\tgithub.com/volsim/volsim/fake/watch.go:12 +0x1\n" +
			"created by github.com/volsim/volsim/fake.newPump in goroutine 5\n\tgithub.com/volsim/volsim/fake/watch.go:11 +0x2", false},
	} {
		if got := goroutine.HasUserFrame(c.stack); got != c.want {
			t.Errorf("%v for\n%s", got, c.stack)
		}
	}
}
