package picture

import (
	"fmt"
	"strings"
)

// A grid writes lanes as columns of text.
type grid struct {
	names []string
	b     strings.Builder
}

// pitchText is the number of characters per lane.
const pitchText = 9

func newGrid(names []string) *grid { return &grid{names: names} }

func (g *grid) words(words string) { fmt.Fprintln(&g.b, words) }

// heads writes the names of the lanes. Each name has its own line, after the preceding lanes, so
// that it has room.
func (g *grid) heads(lanes cells) {
	for i, name := range g.names {
		fmt.Fprintln(&g.b, string(lanes.at[:i*pitchText])+"  "+name)
	}
}

// cells are the characters of a row.
type cells struct{ at []rune }

// lanes returns a row that shows only the lanes.
func (g *grid) lanes() cells {
	return cells{[]rune(strings.Repeat("  │"+strings.Repeat(" ", pitchText-3), len(g.names)))}
}

// put writes a few characters on a lane.
func (c cells) put(lane int, words string) {
	copy(c.at[lane*pitchText+2:], []rune(words))
}

// join draws a line from one lane to another, with an arrow head if it arrives.
func (c cells) join(from, to int, with rune, arrives bool) {
	a, b, tip := from*pitchText+3, to*pitchText+1, '>'
	if to < from {
		a, b, tip = to*pitchText+6, from*pitchText+2, '<'
	}
	for i := a; i < b; i++ {
		c.at[i] = with
	}
	switch {
	case !arrives:
	case tip == '>':
		c.at[b] = tip
	default:
		c.at[a-1] = tip
	}
}

// row writes a row: its number, unless that is 0, and its text.
func (g *grid) row(c cells, number int, words string) {
	label := fmt.Sprintf("%4d  ", number)
	if number == 0 {
		label = "      "
	}
	fmt.Fprintln(&g.b, strings.TrimRight(string(c.at[:len(c.at)-2])+label+words, " "))
}

func (g *grid) String() string { return g.b.String() }
