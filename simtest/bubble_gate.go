package simtest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/volsim/volsim/internal/goroutine"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// A bubbleCaller blocks each request and each delivery until it is chosen.
type bubbleCaller struct {
	b    *BubbleWorld
	name string
}

var _ sim.ContextCaller = bubbleCaller{}

// A blockedCall is a call that is blocked.
type blockedCall struct {
	name        string
	action      trace.Action
	step        int           // at which it arrived; calls of the same step are ordered by their contents
	arrival     int           // the last tie-break, which is outside the chooser's control
	proceed     chan struct{} // closed when the call proceeds
	byTest      bool          // the goroutine of run makes the call
	refused     bool          // the call is refused; set before proceed is closed
	fault       sim.Fault     // that the call suffers; set before proceed is closed
	defaultCall string        // the call of the default order, if another one; set before proceed is closed
}

func (s *blockedCall) String() string { return s.name + ": " + s.action.String() }

// note returns how the call deviates from the default order, "" if it does not.
func (s *blockedCall) note() string {
	var words []string
	if s.fault.Kind != "" {
		words = append(words, "injected fault: "+s.fault.String())
	}
	if s.defaultCall != "" {
		words = append(words, "instead of "+s.defaultCall)
	}
	return strings.Join(words, ", ")
}

// Now returns the time of the bubble.
func (g bubbleCaller) Now() time.Time { return g.b.clock.Now() }

// Call is CallContext without cancellation.
func (g bubbleCaller) Call(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	return g.CallContext(context.Background(), action, effect)
}

// CallContext waits until the call is chosen. A cancelled or refused call has no effect and no
// record.
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
	if s.fault.Kind == "" {
		out := effect()
		g.b.record(g.name, action, out, s.note())
		return out
	}
	out := s.fault.Apply(action, effect)
	g.b.record(g.name, action, out, s.note())
	if s.fault.Kind == sim.FaultHang {
		timeout := g.b.clock.NewTimer(hangTime)
		defer timeout.Stop()
		select {
		case <-timeout.C():
		case <-ctx.Done():
		case <-g.b.ctx.Done():
		}
	}
	return out
}

// hangTime is how long the caller waits for a driver that hangs, in the bubble's time.
const hangTime = 2 * time.Minute

// block adds a blocked call, or returns nil if all calls are refused.
func (b *BubbleWorld) block(name string, action trace.Action) *blockedCall {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return nil
	}
	b.arrivals++
	s := &blockedCall{name: name, action: action, step: b.steps, arrival: b.arrivals, proceed: make(chan struct{})}
	s.byTest = b.runner != 0 && goroutine.ID() == b.runner
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

// refuseAll ends the run: it refuses all blocked and later calls.
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

// drive lets one call proceed at a time, whenever all goroutines are blocked. Until the end it is
// the bubble's only caller of synctest.Wait.
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
			synctest.Wait() // another timer may have fired at the same time
			b.failLifetime()
			life.Reset(bubbleLife)
		case <-b.done:
			return
		}
	}
}

// stepped is the result of a step.
type stepped int

const (
	rested  stepped = iota // no call is blocked
	moved                  // one call proceeded, or all were refused
	delayed                // time must pass first
)

// step lets one blocked call proceed.
func (b *BubbleWorld) step() stepped {
	b.mu.Lock()
	if len(b.waiting) == 0 {
		b.mu.Unlock()
		return rested
	}
	if b.steps >= b.stepsMax {
		b.failed = true
		b.mu.Unlock()
		b.t.Errorf("bound of %d steps reached; the controller may be in a loop", b.stepsMax)
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

// choose removes and returns one of the blocked calls, or returns nil when time must pass. The
// caller holds mu.
func (b *BubbleWorld) choose() *blockedCall {
	slices.SortFunc(b.waiting, compareDefaultOrder)
	var move gateMove
	n := len(b.waiting)
	if b.slow > 0 {
		n++
	}
	switch {
	case b.strategy != nil:
		move = b.strategy.decide(gate{step: b.steps, calls: b.waiting, slow: b.slow > 0})
	case n > 1:
		move.option = b.chooser.Choose(n)
		b.choices = append(b.choices, move.option)
	}
	i := move.option
	if i == len(b.waiting) {
		return nil
	}
	s := b.waiting[i]
	s.fault = move.fault
	if i > 0 {
		s.defaultCall = b.waiting[0].String()
	}
	b.waiting = slices.Delete(b.waiting, i, i+1)
	return s
}

// pass lets time pass until another call arrives, at most as long as set by Slow.
func (b *BubbleWorld) pass() {
	b.mu.Lock()
	slow := b.slow
	b.mu.Unlock()
	b.record("world", trace.Action{Kind: trace.KindEvent, Verb: "tick"}, trace.Outcome{}, "")
	select {
	case <-b.arrived: // the token of a call that is already blocked
	default:
	}
	limit := b.clock.NewTimer(slow)
	defer limit.Stop()
	select {
	case <-b.arrived:
	case <-limit.C():
	}
}

// compareDefaultOrder compares two calls in the default order: deliveries before requests, then by
// arrival, then by name.
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

// failLifetime ends a run that waits for something that does not happen.
func (b *BubbleWorld) failLifetime() {
	b.mu.Lock()
	again := b.over
	b.failed = true
	b.mu.Unlock()
	waits := strings.Join(goroutinesOf(b.id), "\n")
	if again { // a goroutine cannot be ended in any other way
		panic(fmt.Sprintf("simtest: the run was cancelled after %s of the bubble's time and has not ended after %s more; "+
			"blocked goroutines:\n%s\n%s", bubbleLife, bubbleLife, waits, b.report()))
	}
	b.t.Errorf("the run has waited for %s of the bubble's time; blocked goroutines:\n%s", bubbleLife, waits)
	b.refuseAll()
}

// record appends to the log.
func (b *BubbleWorld) record(name string, action trace.Action, out trace.Outcome, note string) {
	b.recording.Lock()
	defer b.recording.Unlock()
	b.log.Append(trace.Record{At: b.clock.Since(b.start), Task: name, Action: action, Outcome: out})
	if note != "" {
		b.notes[b.log.Steps()] = note
	}
}
