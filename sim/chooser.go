package sim

import "math/rand/v2"

// Chooser decides what could have gone otherwise. Choose returns a number below n (n is at least 2); 0 is the ordinary
// course of events.
type Chooser interface {
	Choose(n int) int
}

// FIFO always takes the ordinary course.
type FIFO struct{}

// Choose returns 0.
func (FIFO) Choose(int) int { return 0 }

// Seeded draws every choice evenly. The same seed gives the same choices. Use NewSeeded.
type Seeded struct{ random *rand.Rand }

// NewSeeded returns the chooser of a seed.
func NewSeeded(seed uint64) *Seeded {
	return &Seeded{random: newRandom(seed, 0x766f6c73696d)}
}

// Choose draws below n.
func (s *Seeded) Choose(n int) int { return s.random.IntN(n) }

// Replay makes the given choices one after the other, and the ordinary one when they are used up. A choice that is not
// below n (the world has changed since it was recorded) counts as n-1.
type Replay struct {
	Choices []int
	next    int
}

// Choose returns the next recorded choice.
func (r *Replay) Choose(n int) int {
	if r.next >= len(r.Choices) {
		return 0
	}
	r.next++
	return min(r.Choices[r.next-1], n-1)
}

// Recorder keeps what another chooser chose, for a Replay.
type Recorder struct {
	Chooser Chooser
	Choices []int
}

// Choose asks the chooser within.
func (r *Recorder) Choose(n int) int {
	i := r.Chooser.Choose(n)
	r.Choices = append(r.Choices, i)
	return i
}
