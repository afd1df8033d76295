package executor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/volsim/volsim/executor"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim"
)

// A panic fails its own operation, which ends and backs off like after any other failure, and
// nothing else.
func TestPanicFailsItsOperation(t *testing.T) {
	t.Parallel()
	b := newBench()
	defer b.host.Close()
	other := testcheck.Must(b.start(executor.Key{Volume: "other"}, executor.Attach))
	var outcome executor.Outcome
	var failure error
	op := executor.Operation{
		Key: executor.Key{Volume: volume}, Name: executor.Attach,
		Run:  func(context.Context) error { return careless() },
		Done: func(o executor.Outcome, err error) { outcome, failure = o, err },
	}
	if err := b.x.Start(op); err != nil {
		t.Fatal(err)
	}
	b.settle()
	var panicked *executor.PanicError
	if !errors.As(failure, &panicked) || failure.Error() != "panic: out of range" ||
		!strings.Contains(panicked.Stack, "executor_test.careless") {
		t.Errorf("failure %v, want the panic with its stack", failure)
	}
	if outcome != executor.Uncertain {
		t.Errorf("outcome %v, want uncertain", outcome)
	}
	if err := b.x.Check(op.Key, op.Name); !errors.Is(err, executor.ErrBackoff) {
		t.Errorf("retried immediately: %v", err)
	}
	b.end(other, nil)
	if len(b.done) != 2 {
		t.Errorf("done: %q", b.done)
	}
	if p := b.host.Panics(); len(p) != 1 || p[0].Value != "out of range" || !strings.Contains(p[0].Stack, "careless") {
		t.Errorf("panics of the host: %v", p)
	}
}

func careless() error { panic("out of range") }

// The panic that unwinds a task of a crashed process is not a failure of the operation.
func TestCrashIsNoFailure(t *testing.T) {
	t.Parallel()
	b := newBench()
	defer b.host.Close()
	testcheck.Must(b.start(executor.Key{Volume: volume}, executor.Attach))
	b.host.Crash(b.c)
	if len(b.done) != 0 || len(b.host.Panics()) != 0 {
		t.Errorf("a crash ended an operation: %q, %v", b.done, b.host.Panics())
	}
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	of := func(class plugins.Class) error {
		return fmt.Errorf("attach: %w", &plugins.Error{Class: class, Err: errBroken})
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, "done"},
		{errBroken, "final"},
		{of(plugins.Final), "final"},
		{of(plugins.Transient), "transient"},
		{of(plugins.Uncertain), "uncertain"},
		{&executor.PanicError{Value: of(plugins.Transient)}, "uncertain"},
	} {
		if got := executor.OutcomeOf(c.err).String(); got != c.want {
			t.Errorf("outcome of %v: %s, want %s", c.err, got, c.want)
		}
	}
}

// Upstream waits indefinitely after two operations failed, because the next success clears only one
// of the failures.
func TestWaitReturnsAlthoughOperationsFailed(t *testing.T) {
	t.Parallel()
	b := newBench()
	defer b.host.Close()
	first := testcheck.Must(b.start(keyOn("a", 1), executor.Attach))
	b.end(first, errBroken)
	second := testcheck.Must(b.start(keyOn("a", 2), executor.Attach))
	b.end(second, errBroken)
	hangs := testcheck.Must(b.start(keyOn("b", 1), executor.Attach))
	var said []bool
	b.c.Spawn("wait", func(context.Context) {
		said = append(said, b.x.Wait(time.Minute))
		said = append(said, b.x.Wait(0))
	})
	b.settle()
	if fmt.Sprint(said) != "[false]" || b.host.Now() != sim.Epoch.Add(time.Minute) {
		t.Fatalf("while one hangs: %v at %v", said, b.host.Now())
	}
	b.end(hangs, nil)
	if fmt.Sprint(said) != "[false true]" {
		t.Errorf("when it has ended: %v", said)
	}
}
