package executor_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/volsim/volsim/executor"
)

func TestBackoffDoublesUpToItsMaximum(t *testing.T) {
	t.Parallel()
	var got []time.Duration
	for n := range 12 {
		got = append(got, executor.Backoff(n))
	}
	ms, s := time.Millisecond, time.Second
	want := []time.Duration{0, 500 * ms, 1 * s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 64 * s, 122 * s, 122 * s, 122 * s}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("back-offs (-want +got):\n%s", diff)
	}
	if got := executor.Backoff(1 << 40); got != executor.BackoffMax {
		t.Errorf("after very many failures: %v, want %v", got, executor.BackoffMax)
	}
}
