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

// move is a step of a drawn history.
type move struct {
	verb   string // start, end, fail, pass; try: start, fail
	volume corev1.UniqueVolumeName
	time   time.Duration // for pass
}

var moves = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) move {
	return move{
		verb:   rapid.SampledFrom([]string{"start", "start", "try", "try", "fail", "end", "pass", "pass"}).Draw(t, "verb"),
		volume: rapid.SampledFrom([]corev1.UniqueVolumeName{"v", "v", "w"}).Draw(t, "volume"),
		time: rapid.SampledFrom([]time.Duration{
			100 * time.Millisecond, 501 * time.Millisecond, 3 * time.Second, 40 * time.Second, 123 * time.Second, 123 * time.Second,
		}).Draw(t, "time"),
	}
}), 20, 100)

// TestExecutorsAgree draws histories of one operation on each of two volumes: in these ours and upstream's never differ. (At
// the very end of a back-off they do; the times are such that it is not met.)
func TestExecutorsAgree(t *testing.T) {
	t.Parallel()
	refused := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		history := moves.Draw(rt, "history")
		differ := "the bubble has ended early"
		synctest.Test(t, func(*testing.T) { differ = newPair().live(rt, history, refused) })
		if differ != "" {
			rt.Fatal(differ)
		}
	})
	if len(refused) < 15 {
		t.Errorf("only this was said: %v", refused)
	}
}

// pair are our executor and upstream's under one history.
type pair struct {
	*history
	host      *sim.Stepped
	component *sim.Process
	ours      *executor.Executor
	jobs      map[corev1.UniqueVolumeName]*job      // that run
	failed    map[corev1.UniqueVolumeName]time.Time // when they failed last, those that do not run
}

// job is one of ours under way.
type job struct {
	ended bool
	err   error
}

func newPair() *pair {
	b := &pair{
		history: newHistory(), host: sim.NewStepped(sim.SteppedConfig{}),
		jobs: map[corev1.UniqueVolumeName]*job{}, failed: map[corev1.UniqueVolumeName]time.Time{},
	}
	b.component = b.host.Process("ours")
	b.ours = executor.New(executor.Config{Process: b.component})
	return b
}

// live lets the history happen to both. It returns where they differ, and counts what is refused.
func (b *pair) live(t rapid.TB, history []move, refused map[string]int) string {
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
				return fmt.Sprintf("step %d of %v: ours says %q, upstream's %q\n%s", i, history, ours, upstreams, b.ours)
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
	err := b.ours.Start(executor.Operation{Key: executor.Key{Volume: volume}, Name: executor.Attach, Run: func(context.Context) error {
		b.component.Wait("its end", 0, func() bool { return j.ended })
		return j.err
	}})
	b.settle()
	ends := make(chan error)
	upstreamErr := b.history.start(key{volume: volume}, executor.Attach, ends)
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

// pass lets time pass, unless ours would forget a failure.
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

// settle lets ours do what it can.
func (b *pair) settle() {
	b.component.Wake()
	if err := b.host.Run(); err != nil {
		panic(err)
	}
}

// ourMessage is an outcome in the words of said.
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
