package sim

import "math/rand/v2"

// A Chooser makes the choices of a run. Choose returns a number below n, where n is at least 2.
// Choice 0 follows the default order.
type Chooser interface {
	Choose(n int) int
}

// FIFO always follows the default order.
type FIFO struct{}

// Choose returns 0.
func (FIFO) Choose(int) int { return 0 }

// Seeded draws every choice uniformly. The same seed returns the same choices. Use NewSeeded.
type Seeded struct{ random *rand.Rand }

// NewSeeded returns the chooser of a seed.
func NewSeeded(seed uint64) *Seeded {
	return &Seeded{random: newRandom(seed, 0x766f6c73696d)}
}

// Choose draws a number below n.
func (s *Seeded) Choose(n int) int { return s.random.IntN(n) }

// Replay makes the given choices one after the other, then follows the default order. A choice of n
// or more counts as n-1: the world has changed since the choice was recorded.
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

// A Recorder records the choices of another chooser for a Replay.
type Recorder struct {
	Chooser Chooser
	Choices []int
}

// Choose returns the choice of the inner chooser.
func (r *Recorder) Choose(n int) int {
	i := r.Chooser.Choose(n)
	r.Choices = append(r.Choices, i)
	return i
}

// NewBytes returns a chooser whose choices are the bytes of data, one after the other, for fuzz tests:
//
//	f.Fuzz(func(t *testing.T, data []byte) {
//		c, err := cluster.New(cluster.Config{Stepped: &sim.SteppedConfig{Chooser: sim.NewBytes(data)}})
//		…
//	})
//
// A byte b chooses b modulo the number of alternatives; with more than 256, two bytes do. Where data
// ends, the default order follows: without data it is followed throughout. Another byte changes one
// choice.
func NewBytes(data []byte) Chooser { return &bytesChooser{data} }

type bytesChooser struct{ data []byte }

// Choose returns the choice of the next byte.
func (b *bytesChooser) Choose(n int) int {
	choice := b.next()
	if n > 256 {
		choice += b.next() << 8
	}
	return choice % n
}

// next returns the next byte, 0 after the last one.
func (b *bytesChooser) next() int {
	if len(b.data) == 0 {
		return 0
	}
	first := b.data[0]
	b.data = b.data[1:]
	return int(first)
}
