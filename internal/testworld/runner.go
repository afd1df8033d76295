package testworld

import (
	"context"
	"testing"
	"time"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// A Runner runs a host for a test. It must be used from the goroutine of the test.
type Runner[H sim.Host] struct {
	testing.TB
	Host    H
	Explain func() string // if not nil, its text is shown if a run fails
}

// NewRunner returns a runner for a world without an API server. The host ends with the test.
func NewRunner[H sim.Host](t testing.TB, host H) *Runner[H] {
	t.Helper()
	t.Cleanup(host.Close)
	return &Runner[H]{TB: t, Host: host}
}

// NoError ends the test if one of the errors is not nil.
func (r *Runner[H]) NoError(errs ...error) {
	r.Helper()
	testcheck.NoError(r, errs...)
}

// Run runs the host until no step is left. The host must be stepped.
func (r *Runner[H]) Run() {
	r.Helper()
	r.check(r.stepped().Run())
}

// waitMax limits the wait for a condition on a live host.
const waitMax = time.Minute

// Until runs the host until cond holds. what describes the condition in the error.
func (r *Runner[H]) Until(what string, cond func() bool) {
	r.Helper()
	ctx := context.Background()
	if _, ok := any(r.Host).(*sim.Stepped); !ok {
		limited, cancel := context.WithTimeout(ctx, waitMax)
		defer cancel()
		ctx = limited
	}
	r.check(r.Host.Wait(ctx, what, cond))
}

// Step runs one step of a task. The host must be stepped.
func (r *Runner[H]) Step(task string) {
	r.Helper()
	r.NoError(r.stepped().StepTask(task))
}

func (r *Runner[H]) stepped() *sim.Stepped {
	r.Helper()
	host, ok := any(r.Host).(*sim.Stepped)
	if !ok {
		r.Fatalf("the host is a %T, not a stepped one", r.Host)
	}
	return host
}

// check ends the test with the trace if err is not nil.
func (r *Runner[H]) check(err error) {
	r.Helper()
	switch {
	case err == nil:
	case r.Explain == nil:
		r.Fatalf("%v\n%s", err, r.Host.Log().Text())
	default:
		r.Fatalf("%v\n%s\n%s", err, r.Explain(), r.Host.Log().Text())
	}
}
