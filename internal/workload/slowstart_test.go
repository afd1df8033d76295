package workload_test

import (
	"errors"
	"testing"

	"github.com/volsim/volsim/internal/workload"
)

// TestSlowStart: after a batch with a failure no other is started.
func TestSlowStart(t *testing.T) {
	for _, test := range []struct {
		name                    string
		limit, succeeded, calls int
	}{
		{"callLimit = 0 (all fail)", 0, 0, 1},
		{"callLimit = count (all succeed)", 10, 10, 10},
		{"callLimit < count (some succeed)", 5, 5, 7},
	} {
		t.Run(test.name, func(t *testing.T) {
			calls, limit := 0, errors.New("limit")
			succeeded, err := workload.SlowStart(10, func() error {
				if calls++; calls > test.limit {
					return limit
				}
				return nil
			})
			if succeeded != test.succeeded || calls != test.calls || (err != nil) != (test.limit < 10) {
				t.Errorf("%d of %d calls succeeded, %v", succeeded, calls, err)
			}
		})
	}
}
