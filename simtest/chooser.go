package simtest

import (
	"pgregory.net/rapid"

	"github.com/volsim/volsim/sim"
)

// NewChooser returns a chooser that draws its choices, for a stepped world that the test assembles
// itself. rapid shrinks a failing run towards the default order. For go test -fuzz see sim.NewBytes.
func NewChooser(rt *rapid.T) sim.Chooser { return &drawnChooser{rt: rt} }

// chunk is the number of choices that are drawn at once: a line of rapid's log.
const chunk = 32

type drawnChooser struct {
	rt      *rapid.T
	choices []uint16 // drawn, and still to be made
}

// Choose draws a number below n.
func (c *drawnChooser) Choose(n int) int {
	if len(c.choices) == 0 {
		c.choices = rapid.SliceOfN(rapid.Uint16(), chunk, chunk).Draw(c.rt, "choices")
	}
	next := int(c.choices[0])
	c.choices = c.choices[1:]
	return next % n
}
