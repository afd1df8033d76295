package simtest_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/simtest"
)

// A failure is a test that fails, and what it has to say.
type failure struct {
	name string
	run  func(t *testing.T)
	says []string // patterns
}

var failures = []failure{
	{"a broken rule shows the trace and the choices", func(t *testing.T) {
		simtest.Bubble(t, &sim.Replay{Choices: []int{1}}, func(t *testing.T, b *simtest.BubbleWorld) {
			twoUsers(t, b)
			t.Error("broken")
		})
	}, []string{
		`broken`, `\n +\* +1 +0s +two +api create configmaps/default/two-a  \(rv=\d+.*\)  instead of one: api create configmaps/default/one-a\n`,
		`\n +2 +0s +one +api create configmaps/default/one-a`, `replay with &sim.Replay\{Choices: \[\]int\{1\}\}`,
	}},
	{"a goroutine that is left", func(t *testing.T) {
		simtest.Bubble(t, sim.FIFO{}, func(*testing.T, *simtest.BubbleWorld) {
			go forever()
		})
	}, []string{`goroutines of the bubble are left 1m0s after the run`, `chan receive: .*simtest_test.forever \(.*bubble_fail_test.go:\d+\), started by .*\(.*bubble_fail_test.go:\d+\)`}},
	{"a queue that was not shut down", func(t *testing.T) {
		simtest.Bubble(t, sim.FIFO{}, func(*testing.T, *simtest.BubbleWorld) {
			workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
		})
	}, []string{`goroutines of the bubble are left`, `k8s.io/client-go/util/workqueue`}},
	{"a run that never ends", func(t *testing.T) {
		simtest.Bubble(t, sim.FIFO{}, func(t *testing.T, b *simtest.BubbleWorld) {
			twoUsers(t, b)
			forever()
		})
	}, []string{
		`panic: simtest: the run was cancelled after 24h0m0s of the bubble's time and has not ended`, `\s+chan receive: .*simtest_test.forever`,
		`4 +0s +two +api create configmaps/default/two-b`,
	}},
	{"a circle", func(t *testing.T) {
		simtest.Bubble(t, sim.FIFO{}, func(t *testing.T, b *simtest.BubbleWorld) {
			go func() {
				for b.Context().Err() == nil {
					_, _ = b.Client("busy").CoreV1().ConfigMaps("default").Get(b.Context(), "a", metav1.GetOptions{})
				}
			}()
			b.Settle(0)
			t.Error("Settle returned")
		})
	}, []string{`bound of 100000 steps reached`, `… 99000 earlier records`, `100000 +0s +busy +api get`}},
	{"a run that ends with its context", func(t *testing.T) {
		simtest.Bubble(t, sim.FIFO{}, func(t *testing.T, b *simtest.BubbleWorld) {
			_ = wait.PollUntilContextCancel(b.Context(), 10*time.Second, true, func(context.Context) (bool, error) { return false, nil })
		})
	}, []string{`the run has waited for 24h0m0s of the bubble's time`, `\n +select: .*called from .*simtest_test.* \(.*bubble_fail_test.go:\d+\)`}},
	{"what the chooser does not decide", func(t *testing.T) {
		var runs atomic.Int32
		simtest.BubbleTwice(t, func() sim.Chooser { return sim.FIFO{} }, func(t *testing.T, b *simtest.BubbleWorld) {
			name := "first"
			if runs.Add(1) > 1 {
				name = "second"
			}
			_, _ = b.Client("moody").CoreV1().ConfigMaps("default").Create(b.Context(), newMap("same"), metav1.CreateOptions{})
			_, _ = b.Client("moody").CoreV1().ConfigMaps("default").Create(b.Context(), newMap(name), metav1.CreateOptions{})
		})
	}, []string{
		`the same choices led to different runs, from step 2 on`, `first run: +0s moody: api create configmaps/default/first`,
		`second run: 0s moody: api create configmaps/default/second`,
	}},
	{"a failure that does not replay", func(t *testing.T) {
		var runs atomic.Int32
		simtest.BubbleTwice(t, func() sim.Chooser { return sim.FIFO{} }, func(t *testing.T, b *simtest.BubbleWorld) {
			if runs.Add(1) > 1 {
				twoUsers(t, b)
			}
			t.Fatal("broken")
		})
	}, []string{`broken`, `from step 1 on`, `first run: +end of the run`, `second run: 0s one: api create configmaps/default/one-a`}},
}

func forever() { <-make(chan struct{}) }

// failing says which of the failures a test binary is to run.
const failing = "VOLSIM_FAILING_BUBBLE"

// failed runs this test's binary for one of the failures and returns its output.
func failed(ctx context.Context, t *testing.T, binary, name, dir string) []byte {
	t.Helper()
	cmd := exec.CommandContext(ctx, binary, "-test.run", "^TestABubbleSaysWhyItFails$")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), failing+"="+name, "VOLSIM_KEEP=", "GOMAXPROCS=1")
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatalf("it did not fail:\n%s", out)
	}
	return out
}

// TestABubbleSaysWhyItFails runs this test's binary again for each of the failures.
func TestABubbleSaysWhyItFails(t *testing.T) {
	all := slices.Concat(failures, searchFailures)
	for _, f := range all {
		if os.Getenv(failing) == f.name {
			f.run(t)
			return
		}
	}
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			out := failed(ctx, t, binary, f.name, t.TempDir())
			if died := bytes.Contains(out, []byte("panic: ")); died != (f.name == "a run that never ends") {
				t.Errorf("the binary died: %v", died)
			}
			for _, pattern := range f.says {
				if !regexp.MustCompile(pattern).Match(out) {
					t.Errorf("%q is not in it", pattern)
				}
			}
			if t.Failed() {
				t.Logf("%.20000s", out)
			}
		})
	}
}
