package simtest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// bubbleCaller stops whoever makes a request or is told of an event, until it is his turn.
type bubbleCaller struct {
	b    *BubbleWorld
	name string
}

var _ sim.ContextCaller = bubbleCaller{}

// blockedCall is somebody who was stopped.
type blockedCall struct {
	name        string
	action      trace.Action
	step        int           // at which he came; who comes at the same step is told apart by what he wants
	arrival     int           // the last tie-break, which is not the chooser's nor anybody's
	proceed     chan struct{} // closed when it is his turn
	refused     bool          // it is his turn to be turned away; set before turn is closed
	defaultCall string        // what the ordinary course would have been, if not this; set before turn is closed
}

func (s *blockedCall) String() string { return s.name + ": " + s.action.String() }

// Now is the bubble's time.
func (g bubbleCaller) Now() time.Time { return g.b.clock.Now() }

// Call is Pass for whoever does not give up.
func (g bubbleCaller) Call(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	return g.CallContext(context.Background(), action, effect)
}

// CallContext waits for its turn. What is given up, or turned away, did not happen and is not recorded.
func (g bubbleCaller) CallContext(ctx context.Context, action trace.Action, effect func() trace.Outcome) trace.Outcome {
	if err := ctx.Err(); err != nil {
		return trace.Outcome{Err: err}
	}
	s := g.b.block(g.name, action)
	if s == nil {
		return trace.Outcome{Err: errOver}
	}
	select {
	case <-s.proceed:
	case <-ctx.Done():
		g.b.cancelCall(s)
		return trace.Outcome{Err: ctx.Err()}
	}
	if s.refused {
		return trace.Outcome{Err: errOver}
	}
	out := effect()
	g.b.record(g.name, action, out, s.defaultCall)
	return out
}

// block stops somebody; nil when everybody is turned away.
func (b *BubbleWorld) block(name string, action trace.Action) *blockedCall {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return nil
	}
	b.arrivals++
	s := &blockedCall{name: name, action: action, step: b.steps, arrival: b.arrivals, proceed: make(chan struct{})}
	b.waiting = append(b.waiting, s)
	select {
	case b.arrived <- struct{}{}:
	default:
	}
	return s
}

func (b *BubbleWorld) cancelCall(s *blockedCall) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = slices.DeleteFunc(b.waiting, func(w *blockedCall) bool { return w == s })
}

// refuseAll ends the run: whoever waits is turned away, and everybody after him.
func (b *BubbleWorld) refuseAll() {
	b.cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	for _, s := range b.waiting {
		s.refused = true
		close(s.proceed)
	}
	b.waiting = nil
}

// drive lets one go at a time, whenever all are blocked. It is the bubble's only caller of synctest.Wait until the end.
func (b *BubbleWorld) drive() {
	defer close(b.stopped)
	life := b.clock.NewTimer(bubbleLife)
	defer life.Stop()
	var resters []chan struct{}
	for {
		synctest.Wait()
		switch b.step() {
		case moved:
			continue
		case delayed:
			b.pass()
			continue
		}
		for _, r := range resters {
			close(r)
		}
		resters = nil
		select {
		case <-b.arrived:
		case r := <-b.resting:
			resters = append(resters, r)
			life.Reset(bubbleLife)
		case <-life.C():
			synctest.Wait() // something else may have become due at this moment
			b.failLifetime()
			life.Reset(bubbleLife)
		case <-b.done:
			return
		}
	}
}

// stepped is what became of a step.
type stepped int

const (
	rested  stepped = iota // nobody waits
	moved                  // one of those who wait was let go, or all were turned away
	delayed                // time is to pass first
)

// step lets one of those go who wait.
func (b *BubbleWorld) step() stepped {
	b.mu.Lock()
	if len(b.waiting) == 0 {
		b.mu.Unlock()
		return rested
	}
	if b.steps >= b.stepsMax {
		b.failed = true
		b.mu.Unlock()
		b.t.Errorf("the bubble has made %d steps, and something can happen still: does the controller run in a circle?", b.stepsMax)
		b.refuseAll()
		return moved
	}
	defer b.mu.Unlock()
	b.steps++
	s := b.choose()
	if s == nil {
		return delayed
	}
	close(s.proceed)
	return moved
}

// choose takes one out of those who wait, or returns nil when time is to pass; mu is held.
func (b *BubbleWorld) choose() *blockedCall {
	slices.SortFunc(b.waiting, compareDefaultOrder)
	i, n := 0, len(b.waiting)
	if b.slow > 0 {
		n++
	}
	if n > 1 {
		i = b.chooser.Choose(n)
		b.choices = append(b.choices, i)
	}
	if i == len(b.waiting) {
		return nil
	}
	s := b.waiting[i]
	if i > 0 {
		s.defaultCall = b.waiting[0].String()
	}
	b.waiting = slices.Delete(b.waiting, i, i+1)
	return s
}

// pass lets time pass until somebody comes, at most as long as Slow said.
func (b *BubbleWorld) pass() {
	b.mu.Lock()
	slow := b.slow
	b.mu.Unlock()
	b.record("world", trace.Action{Kind: trace.KindEvent, Verb: "tick"}, trace.Outcome{}, "")
	select {
	case <-b.arrived: // of one of those who wait already
	default:
	}
	limit := b.clock.NewTimer(slow)
	defer limit.Stop()
	select {
	case <-b.arrived:
	case <-limit.C():
	}
}

// compareDefaultOrder is the ordinary course: deliveries before requests, who came first, then by name.
func compareDefaultOrder(a, b *blockedCall) int {
	return cmp.Or(
		cmp.Compare(rank(a), rank(b)),
		cmp.Compare(a.step, b.step),
		cmp.Compare(a.name, b.name),
		cmp.Compare(a.action.Kind, b.action.Kind),
		cmp.Compare(a.action.Object, b.action.Object),
		cmp.Compare(a.action.Verb, b.action.Verb),
		cmp.Compare(a.arrival, b.arrival),
	)
}

func rank(s *blockedCall) int {
	if s.action.Kind == trace.KindDeliver {
		return 0
	}
	return 1
}

// failLifetime ends a run that does not end by itself: it waits for what does not come.
func (b *BubbleWorld) failLifetime() {
	b.mu.Lock()
	again := b.over
	b.failed = true
	b.mu.Unlock()
	waits := strings.Join(goroutinesOf(b.id), "\n")
	if again { // there is no other way to end a goroutine that does not want to
		panic(fmt.Sprintf("simtest: after %s of the bubble's time the run was told to end, and has not after %s more; "+
			"what it waits for:\n%s\n%s", bubbleLife, bubbleLife, waits, b.story()))
	}
	b.t.Errorf("the run has waited for %s of the bubble's time; for what:\n%s", bubbleLife, waits)
	b.refuseAll()
}

// record appends to the log.
func (b *BubbleWorld) record(name string, action trace.Action, out trace.Outcome, instead string) {
	b.recording.Lock()
	defer b.recording.Unlock()
	b.log.Append(trace.Record{At: b.clock.Since(b.start), Task: name, Action: action, Outcome: out})
	if instead != "" {
		b.defaultCalls[b.log.Steps()] = instead
	}
}
