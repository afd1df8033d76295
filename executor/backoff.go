package executor

import "time"

// The back-off of a failed operation: backoffMin after the first failure, doubled with each further
// one, at most BackoffMax. BackoffMax is slightly more than two minutes so that it is recognisable
// in logs.
//
// Upstream: pkg/util/goroutinemap/exponentialbackoff initialDurationBeforeRetry,
// maxDurationBeforeRetry (v1.36).
const (
	backoffMin = 500 * time.Millisecond
	BackoffMax = 2*time.Minute + 2*time.Second
)

// forgetAfter is the time after the last failure at which the failure count is dropped. It is
// longer than any back-off, so a failure that delays an operation is never dropped. It bounds the
// number of failures kept.
const forgetAfter = 2 * BackoffMax

// backoff returns how long an operation waits after its n-th failure in succession. It is 0 for n
// <= 0.
func backoff(n int) time.Duration {
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
