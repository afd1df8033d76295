package upstreamops_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/executor"
	"github.com/volsim/volsim/sim"
)

// An act is a step of a random history.
type act struct {
	verb   string // start, end, fail, pass; try: start, fail
	volume corev1.UniqueVolumeName
	time   time.Duration // for pass
}

var drawActs = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) act {
	return act{
		verb:   rapid.SampledFrom([]string{"start", "start", "try", "try", "fail", "end", "pass", "pass"}).Draw(t, "verb"),
		volume: rapid.SampledFrom([]corev1.UniqueVolumeName{"v", "v", "w"}).Draw(t, "volume"),
		time: rapid.SampledFrom([]time.Duration{
			101 * time.Millisecond, 501 * time.Millisecond, 3001 * time.Millisecond, 40_001 * time.Millisecond,
			123_001 * time.Millisecond, 123_001 * time.Millisecond,
		}).Draw(t, "time"),
	}
}), 20, 100)

// TestExecutorsAgree runs random histories of operations on two volumes and checks that volsim's
// and upstream's executors never differ. They do differ at the exact end of a back-off. The times
// avoid it: the sum of n of them is n ms more than a multiple of 100 ms, and back-offs are such
// multiples.
func TestExecutorsAgree(t *testing.T) {
	t.Parallel()
	refused := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		history := drawActs.Draw(rt, "history")
		difference := "bubble ended early"
		synctest.Test(t, func(*testing.T) { difference = newPair().execute(rt, history, refused) })
		if difference != "" {
			rt.Fatal(difference)
		}
	})
	if len(refused) < 15 {
		t.Errorf("too few distinct results: %v", refused)
	}
}

// A pair is volsim's executor and upstream's with the same history.
type pair struct {
	*history
	host    *sim.Stepped
	process *sim.Process
	ours    *executor.Executor
	jobs    map[corev1.UniqueVolumeName]*job      // running
	failed  map[corev1.UniqueVolumeName]time.Time // time of the last failure of volumes without a running operation
}

// A job is a running operation of volsim's executor.
type job struct {
	ended bool
	err   error
}

func newPair() *pair {
	b := &pair{
		history: newHistory(), host: sim.NewStepped(sim.SteppedConfig{}),
		jobs: map[corev1.UniqueVolumeName]*job{}, failed: map[corev1.UniqueVolumeName]time.Time{},
	}
	b.process = b.host.Process("ours")
	b.ours = executor.New(executor.Config{Process: b.process})
	return b
}

// execute runs the history on both executors. It returns where they differ, and counts the results.
func (b *pair) execute(t rapid.TB, history []act, refused map[string]int) string {
	defer b.host.Close()
	defer b.clear()
	for i, m := range history {
		j := b.jobs[m.volume]
		switch {
		case m.verb == "pass":
			b.pass(m.time)
		case m.verb == "start", m.verb == "try":
			ours, upstreams := b.start(t, m.volume)
			if ours != upstreams {
				return fmt.Sprintf("step %d of %v: volsim's result is %q, upstream's %q\n%s", i, history, ours, upstreams, b.ours)
			}
			refused[ours]++
			if m.verb == "try" && ours == "ok" {
				b.end(m.volume, b.jobs[m.volume], errBroken)
			}
		case j != nil:
			b.end(m.volume, j, map[string]error{"end": nil, "fail": errBroken}[m.verb])
		}
	}
	return ""
}

func (b *pair) start(t rapid.TB, volume corev1.UniqueVolumeName) (ours, upstreams string) {
	j := &job{}
	err := b.ours.Start(executor.Operation{Key: executor.Key{Volume: volume}, Name: "volume_attach", Run: func(context.Context) error {
		b.process.Wait("its end", 0, func() bool { return j.ended })
		return j.err
	}})
	b.settle()
	ends := make(chan error)
	upstreamErr := b.history.start(key{volume: volume}, "volume_attach", ends)
	if err == nil && upstreamErr == nil {
		delete(b.failed, volume)
		b.jobs[volume], b.running[string(volume)] = j, ends
	}
	return ourMessage(err), said(t, upstreamErr)
}

func (b *pair) end(volume corev1.UniqueVolumeName, j *job, err error) {
	j.ended, j.err = true, err
	delete(b.jobs, volume)
	if err != nil {
		b.failed[volume] = b.host.Now()
	}
	b.settle()
	b.history.end(string(volume), err)
}

// pass advances the clock, unless volsim's executor would forget a failure.
func (b *pair) pass(d time.Duration) {
	now := b.host.Now().Add(d)
	for _, at := range b.failed {
		if now.Sub(at) >= 2*executor.BackoffMax {
			return
		}
	}
	b.host.SetTime(now)
	time.Sleep(d)
}

// settle runs volsim's executor until it is quiescent.
func (b *pair) settle() {
	b.process.Wake()
	if err := b.host.Run(); err != nil {
		panic(err)
	}
}

// ourMessage returns a result in the format of said.
func ourMessage(err error) string {
	var backoff *executor.BackoffError
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, executor.ErrPending):
		return "pending"
	case errors.As(err, &backoff):
		return "back-off " + backoff.Remaining.String()
	default:
		return err.Error()
	}
}
