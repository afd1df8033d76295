package executor

import "time"

// How long an operation that failed is not tried again: BackoffMin after the first failure, twice as long after each
// further one, never more than BackoffMax, which is a little off two minutes so that one recognises it.
//
// Upstream: pkg/util/goroutinemap/exponentialbackoff initialDurationBeforeRetry, maxDurationBeforeRetry (v1.36).
const (
	backoffMin = 500 * time.Millisecond
	BackoffMax = 2*time.Minute + 2*time.Second
)

// forgetAfter is how long after the last failure the count of failures is kept. It is longer than any wait, so that no
// failure is forgotten while it holds anything up, and bounds how many are kept.
const forgetAfter = 2 * BackoffMax

// Backoff is how long an operation waits after its n-th failure in succession; 0 before the first.
func Backoff(n int) time.Duration {
	if n <= 0 {
		return 0
	}
	wait := backoffMin
	for range n - 1 {
		wait *= 2
		if wait >= BackoffMax {
			return BackoffMax
		}
	}
	return wait
}
