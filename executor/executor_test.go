package executor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/volsim/volsim/executor"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// bench is an executor with operations that end when the test says so.
type bench struct {
	host *sim.Stepped
	c    *sim.Process
	x    *executor.Executor
	done []string
	jobs []*job
}

// job is a started operation.
type job struct {
	op    executor.Operation
	moves bool // its task has started
	ended bool
	err   error
}

func newBench() *bench { return newBenchWith(0) }

func newBenchWith(limit int) *bench {
	b := &bench{host: sim.NewStepped(sim.SteppedConfig{})}
	b.c = b.host.Process("test")
	b.x = executor.New(executor.Config{Process: b.c, Limit: limit, OnDone: func(op executor.Operation, _ executor.Outcome, err error) {
		b.done = append(b.done, fmt.Sprintf("%s %s: %v", op.Name, op.Key, err))
	}})
	return b
}

func (b *bench) start(key executor.Key, name string) (*job, error) {
	j := &job{op: executor.Operation{Key: key, Name: name}}
	j.op.Run = func(context.Context) error {
		j.moves = true
		b.c.Wait("the end of "+name, 0, func() bool { return j.ended })
		if errors.Is(j.err, errPanic) {
			panic(j.err)
		}
		return j.err
	}
	if err := b.x.Start(j.op); err != nil {
		return nil, err
	}
	b.jobs = append(b.jobs, j)
	b.settle()
	return j, nil
}

// moving returns the operations with a running task, by volume and node.
func (b *bench) moving() string {
	var words []string
	for _, j := range b.jobs {
		if j.moves && !j.ended {
			_, handle, _ := strings.Cut(string(j.op.Key.Volume), "^")
			words = append(words, j.op.Name+" "+handle+" "+string(j.op.Key.Node))
		}
	}
	slices.Sort(words)
	return strings.Join(words, "; ")
}

func (b *bench) end(j *job, err error) {
	j.ended, j.err = true, err
	b.settle()
}

func (b *bench) settle() {
	b.c.Wake()
	if err := b.host.Run(); err != nil {
		panic(err)
	}
}

func (b *bench) pass(d time.Duration) { b.host.SetTime(b.host.Now().Add(d)) }

var errBroken = errors.New("broken")

func TestStartRejectsOverlappingOperations(t *testing.T) {
	t.Parallel()
	b := newBench()
	defer b.host.Close()
	j := testcheck.Must(b.start(executor.Key{Volume: volume}, executor.Attach))

	_, err := b.start(executor.Key{Volume: volume, Node: "n1"}, executor.Detach)
	want := &executor.PendingError{
		Key: executor.Key{Volume: volume, Node: "n1"}, Running: executor.Key{Volume: volume}, Name: executor.Attach,
	}
	var got *executor.PendingError
	if !errors.As(err, &got) || !errors.Is(err, executor.ErrPending) {
		t.Fatalf("start while another runs: %v, want %v", err, want)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
	text := "Failed to create operation with name {volumeName:kubernetes.io/csi/driver^1 podName: nodeName:n1}. " +
		"An operation with that name is already executing."
	if got.Error() != text {
		t.Errorf("text %q, want %q", got.Error(), text)
	}
	if !b.x.Pending(want.Key) || b.x.Pending(executor.Key{Volume: "other"}) || b.x.Running() != 1 {
		t.Errorf("while the operation runs:\n%s", b.x)
	}
	b.end(j, nil)
	testcheck.Must(b.start(want.Key, executor.Detach))
	if diff := cmp.Diff([]string{"volume_attach {volumeName:kubernetes.io/csi/driver^1 podName: nodeName:}: <nil>"},
		b.done); diff != "" {
		t.Errorf("done (-want +got):\n%s", diff)
	}
}

func TestOperationsWithoutVolumeAlwaysStart(t *testing.T) {
	t.Parallel()
	b := newBench()
	defer b.host.Close()
	first := testcheck.Must(b.start(executor.Key{}, executor.VerifyAttached))
	second := testcheck.Must(b.start(executor.Key{}, executor.VerifyAttached))
	b.end(first, errBroken)
	b.end(second, errBroken)
	b.end(testcheck.Must(b.start(executor.Key{}, executor.VerifyAttached)), nil)
	if b.x.Running() != 0 || b.x.String() != "" {
		t.Errorf("remaining: %d running\n%s", b.x.Running(), b.x)
	}
}

func TestBackoffErrorHasTheRemainingTime(t *testing.T) {
	t.Parallel()
	b := newBench()
	defer b.host.Close()
	key := executor.Key{Volume: volume}
	b.end(testcheck.Must(b.start(key, executor.Attach)), errBroken)
	b.pass(200 * time.Millisecond)

	_, err := b.start(key, executor.Attach)
	want := &executor.BackoffError{
		Key: key, Name: executor.Attach, FailedAt: sim.Epoch, Failures: 1, Err: errBroken,
		Wait: 500 * time.Millisecond, Remaining: 300 * time.Millisecond,
	}
	var got *executor.BackoffError
	if !errors.As(err, &got) || !errors.Is(err, executor.ErrBackoff) || !errors.Is(err, errBroken) {
		t.Fatalf("start too early: %v, want %v", err, want)
	}
	if diff := cmp.Diff(*want, *got, cmp.Comparer(func(a, b error) bool { return errors.Is(a, b) })); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
	text := `Failed to create operation with name "{volumeName:kubernetes.io/csi/driver^1 podName: nodeName:}". ` +
		"An operation with that name failed at 2026-01-01 00:00:00 +0000 UTC. No retries permitted until " +
		`2026-01-01 00:00:00.5 +0000 UTC (500ms). Last error: "broken".`
	if got.Error() != text {
		t.Errorf("text %q, want %q", got.Error(), text)
	}
	b.pass(got.Remaining)
	testcheck.Must(b.start(key, executor.Attach))
}

// Upstream keeps the name of the previous operation: there B would fail under A's name and could
// start again immediately.
func TestNameOfThePreviousOperationIsNotKept(t *testing.T) {
	t.Parallel()
	b := newBench()
	defer b.host.Close()
	key := executor.Key{Volume: volume}
	b.end(testcheck.Must(b.start(key, executor.Attach)), errBroken)
	b.pass(time.Second)
	b.end(testcheck.Must(b.start(key, executor.Detach)), errBroken)
	if err := b.x.Check(key, executor.Detach); !errors.Is(err, executor.ErrBackoff) {
		t.Errorf("detach right after its failure: %v, want %v", err, executor.ErrBackoff)
	}
	if err := b.x.Check(key, executor.Attach); err != nil {
		t.Errorf("attach after its back-off: %v, want none", err)
	}
}

// Upstream resets the back-off at each attempt of the other operation (I23b).
func TestAlternatingOperationsKeepTheirBackoff(t *testing.T) {
	t.Parallel()
	b := newBench()
	defer b.host.Close()
	key := executor.Key{Volume: volume}
	var got []time.Duration
	for range 4 {
		for _, name := range []string{executor.Detach, executor.Attach} {
			var backoff *executor.BackoffError
			if errors.As(b.x.Check(key, name), &backoff) {
				b.pass(backoff.Remaining)
			}
			b.end(testcheck.Must(b.start(key, name)), errBroken)
			got = append(got, b.host.Now().Sub(sim.Epoch))
		}
	}
	ms := time.Millisecond
	want := []time.Duration{0, 0, 500 * ms, 500 * ms, 1500 * ms, 1500 * ms, 3500 * ms, 3500 * ms}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
}

// Upstream lets success clear one of several overlapping failures; the others stay indefinitely.
func TestSuccessClearsAllOverlappingFailuresOfItsName(t *testing.T) {
	t.Parallel()
	b := newBench()
	defer b.host.Close()
	for _, key := range []executor.Key{
		{Volume: volume, Node: "n1"},
		{Volume: volume, Node: "n2"},
		{Volume: "other", Node: "n1"},
	} {
		b.end(testcheck.Must(b.start(key, executor.Attach)), errBroken)
	}
	b.end(testcheck.Must(b.start(executor.Key{Volume: volume, Node: "n1"}, executor.Detach)), errBroken)
	b.pass(time.Second)
	b.end(testcheck.Must(b.start(executor.Key{Volume: volume}, executor.Attach)), nil)
	want := "{volumeName:kubernetes.io/csi/driver^1 podName: nodeName:n1} volume_detach failed 1 times, waits 500ms: broken\n" +
		"{volumeName:other podName: nodeName:n1} volume_attach failed 1 times, waits 500ms: broken\n"
	if diff := cmp.Diff(want, b.x.String()); diff != "" {
		t.Errorf("remaining (-want +got):\n%s", diff)
	}
}

func TestOldFailuresAreDropped(t *testing.T) {
	t.Parallel()
	b := newBench()
	defer b.host.Close()
	b.end(testcheck.Must(b.start(executor.Key{Volume: volume}, executor.Attach)), errBroken)
	b.pass(2 * executor.BackoffMax)
	b.end(testcheck.Must(b.start(executor.Key{Volume: "other"}, executor.Attach)), nil)
	if got := b.x.String(); got != "" {
		t.Errorf("remaining:\n%s", got)
	}
}
