package simtest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing/synctest"
	"time"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/trace"
)

// gate stops whoever makes a request or is told of an event, until it is his turn.
type gate struct {
	b    *BubbleWorld
	name string
}

var _ sim.Gate = gate{}

// stop is somebody who was stopped.
type stop struct {
	name    string
	action  trace.Action
	step    int           // at which he came; who comes at the same step is told apart by what he wants
	arrival int           // the last tie-break, which is not the chooser's nor anybody's
	turn    chan struct{} // closed when it is his turn
	refused bool          // it is his turn to be turned away; set before turn is closed
	instead string        // what the ordinary course would have been, if not this; set before turn is closed
}

func (s *stop) String() string { return s.name + ": " + s.action.String() }

// Now is the bubble's time.
func (g gate) Now() time.Time { return g.b.clock.Now() }

// Call is Pass for whoever does not give up.
func (g gate) Call(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	return g.Pass(context.Background(), action, effect)
}

// Pass waits for its turn. What is given up, or turned away, did not happen and is not recorded.
func (g gate) Pass(ctx context.Context, action trace.Action, effect func() trace.Outcome) trace.Outcome {
	if err := ctx.Err(); err != nil {
		return trace.Outcome{Err: err}
	}
	s := g.b.arrive(g.name, action)
	if s == nil {
		return trace.Outcome{Err: errOver}
	}
	select {
	case <-s.turn:
	case <-ctx.Done():
		g.b.leave(s)
		return trace.Outcome{Err: ctx.Err()}
	}
	if s.refused {
		return trace.Outcome{Err: errOver}
	}
	out := effect()
	g.b.record(g.name, action, out, s.instead)
	return out
}

// arrive stops somebody; nil when everybody is turned away.
func (b *BubbleWorld) arrive(name string, action trace.Action) *stop {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return nil
	}
	b.arrivals++
	s := &stop{name: name, action: action, step: b.steps, arrival: b.arrivals, turn: make(chan struct{})}
	b.waiting = append(b.waiting, s)
	select {
	case b.arrived <- struct{}{}:
	default:
	}
	return s
}

func (b *BubbleWorld) leave(s *stop) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = slices.DeleteFunc(b.waiting, func(w *stop) bool { return w == s })
}

// turnAway ends the run: whoever waits is turned away, and everybody after him.
func (b *BubbleWorld) turnAway() {
	b.cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	for _, s := range b.waiting {
		s.refused = true
		close(s.turn)
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
		if b.letGo() {
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
		case <-life.C():
			b.outlived()
			life.Reset(bubbleLife)
		case <-b.done:
			return
		}
	}
}

// letGo lets one of those go who wait, and returns whether there was one.
func (b *BubbleWorld) letGo() bool {
	b.mu.Lock()
	if len(b.waiting) == 0 {
		b.mu.Unlock()
		return false
	}
	if b.steps >= b.stepsMax {
		b.failed = true
		b.mu.Unlock()
		b.t.Errorf("the bubble has made %d steps, and something can happen still: does the controller run in a circle?", b.stepsMax)
		b.turnAway()
		return true
	}
	defer b.mu.Unlock()
	s := b.choose()
	b.steps++
	close(s.turn)
	return true
}

// choose takes one out of those who wait; mu is held.
func (b *BubbleWorld) choose() *stop {
	i := 0
	if len(b.waiting) > 1 {
		slices.SortFunc(b.waiting, ordinary)
		i = b.chooser.Choose(len(b.waiting))
		b.choices = append(b.choices, i)
	}
	s := b.waiting[i]
	if i > 0 {
		s.instead = b.waiting[0].String()
	}
	b.waiting = slices.Delete(b.waiting, i, i+1)
	return s
}

// ordinary is the ordinary course: deliveries before requests, who came first, then by name.
func ordinary(a, b *stop) int {
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

func rank(s *stop) int {
	if s.action.Kind == trace.KindDeliver {
		return 0
	}
	return 1
}

// outlived ends a run that does not end by itself: it waits, by the clock, for what does not come.
func (b *BubbleWorld) outlived() {
	b.mu.Lock()
	again := b.over
	b.failed = true
	b.mu.Unlock()
	if again { // there is no other way to end a goroutine that does not want to
		panic(fmt.Sprintf("simtest: %s of the bubble's time after its context ended, the run still goes on", bubbleLife))
	}
	b.t.Errorf("the run goes on after %s of the bubble's time: what does it wait for?", bubbleLife)
	b.turnAway()
}

// record appends to the log.
func (b *BubbleWorld) record(name string, action trace.Action, out trace.Outcome, instead string) {
	b.recording.Lock()
	defer b.recording.Unlock()
	b.log.Append(trace.Record{At: b.clock.Since(b.began), Actor: name, Action: action, Outcome: out})
	if instead != "" {
		b.insteadOf[b.log.Steps()] = instead
	}
}
