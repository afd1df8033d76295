package picture

import (
	"fmt"
	"strings"
)

// The layout of state machines, in pixels.
const (
	stateWidth  = 76
	stateHeight = 26
	statePitch  = 124
	arcStep     = 20 // additional height of an arc for each state that it spans
)

func (p *states) caption() (title, description string) {
	return p.title, fmt.Sprintf("%d state machines, with %d changes that are numbered in their order.",
		len(p.machines), len(p.steps))
}

func (p *states) draw() *canvas {
	c := &canvas{}
	edge := pageWidth - 2*margin
	y := 0
	for _, line := range wrap(p.title, sizeTitle, edge*100/115) {
		c.text("title", left, 0, y, line)
		y += 22
	}
	for i := range p.machines {
		y = p.machines[i].draw(c, y+6)
	}
	for _, words := range p.omitted {
		y += lineStep
		c.text("note", left, 0, y, words)
	}
	y += 8
	for i, words := range p.steps {
		for n, line := range wrap(words, sizeText, edge-34) {
			y += lineStep + 2
			if n == 0 {
				badge(c, 14, y-4, fmt.Sprint(i+1))
			}
			c.text("text", left, 34, y, line)
		}
	}
	y += 6
	for _, v := range p.verdict {
		for _, line := range wrap(v, sizeText, edge*100/115) {
			y += lineStep + 2
			c.text("who", left, 0, y, line)
		}
	}
	p.drawLegend(c, y+4)
	return c
}

// drawLegend draws a legend of the states and transitions that occur.
func (p *states) drawLegend(c *canvas, y int) {
	has := map[ink]bool{}
	for i := range p.machines {
		m := &p.machines[i]
		for _, name := range m.states {
			has[m.class(name)] = true
		}
		for _, e := range m.edges {
			has[e.class()] = true
		}
	}
	x := 0
	y += lineStep + 6
	for _, entry := range []struct {
		what  ink
		words string
	}{
		{"here", "current state"},
		{"visited", "earlier state"},
		{"state", "not reached"},
		{"write", "transition, with the numbers of its changes"},
		{"could", "possible transition"},
	} {
		if !has[entry.what] {
			continue
		}
		switch entry.what {
		case "write":
			c.line("write", x, y-3, x+22, y-3)
			c.arrow("tip", x+30, y-3, 1)
			badge(c, x+11, y-3, "4")
		case "could":
			c.line("could", x, y-3, x+22, y-3)
			c.arrow("couldtip", x+30, y-3, 1)
		default:
			c.rect(entry.what, x, y-10, 30, 14, 4)
		}
		c.text("small", left, x+36, y, entry.words)
		x += 36 + width(entry.words, sizeSmall) + 20
	}
}

// class returns the class of a state.
func (m *machine) class(state string) ink {
	switch {
	case state == m.current:
		return "here"
	case m.visited[state]:
		return "visited"
	default:
		return "state"
	}
}

// class returns the class of the line of an edge.
func (e edge) class() ink {
	if len(e.taken) > 0 {
		return "write"
	}
	return "could"
}

// badge draws numbers on a pill.
func badge(c *canvas, x, y int, words string) {
	half := width(words, sizeSmall)/2 + 6
	c.rect("pill", x-half, y-7, 2*half, 14, 7)
	c.textOn("rv", middle, x, y+4, words)
}

// arc returns the distance of an edge from the row of states: 0 for an edge to the next state,
// negative (above) for one further on, positive (below) for one back.
func (e edge) arc() int {
	switch {
	case e.to == e.from+1:
		return 0
	case e.to > e.from:
		return -(14 + arcStep*(e.to-e.from-1))
	default:
		return 14 + arcStep*(e.from-e.to)
	}
}

// draw draws the machine below y and returns its lower end.
func (m *machine) draw(c *canvas, y int) int {
	up, down := 0, 0
	for _, e := range m.edges {
		up, down = min(up, e.arc()), max(down, e.arc())
	}
	y += 14
	c.text("who", left, 0, y, cut(m.title, sizeText, pageWidth*8/10))
	row := y + 14 - up + stateHeight/2
	for _, taken := range []bool{false, true} {
		for _, e := range m.edges {
			if taken == (len(e.taken) > 0) {
				e.draw(c, row)
			}
		}
	}
	for i, name := range m.states {
		class, words := m.class(name), ink("text")
		if class == "state" {
			words = "note"
		}
		c.rect(class, i*statePitch, row-stateHeight/2, stateWidth, stateHeight, 6)
		c.textOn(words, middle, i*statePitch+stateWidth/2, row+4, name)
	}
	for _, e := range m.edges {
		e.number(c, row)
	}
	return row + stateHeight/2 + down + 10
}

// draw draws the line of an edge.
func (e edge) draw(c *canvas, row int) {
	line, tip := e.class(), ink("couldtip")
	if line == "write" {
		tip = "tip"
	}
	x1, x2 := e.from*statePitch, e.to*statePitch
	arc := e.arc()
	switch {
	case arc == 0:
		c.line(line, x1+stateWidth, row, x2-8, row)
		c.arrow(tip, x2, row, 1)
	case arc < 0:
		x1, x2 = x1+stateWidth*3/4, x2+stateWidth/4
		top := row - stateHeight/2
		c.path(line, "M%d %d C%d %d %d %d %d %d", x1, top, x1+20, top+arc*5/4, x2-20, top+arc*5/4, x2, top-7)
		c.path(tip, "M%d %d l-4 -8 h8 z", x2, top)
	default:
		x1, x2 = x1+stateWidth/4, x2+stateWidth*3/4
		bottom := row + stateHeight/2
		c.path(line, "M%d %d C%d %d %d %d %d %d", x1, bottom, x1-20, bottom+arc*5/4,
			x2+20, bottom+arc*5/4, x2, bottom+7)
		c.path(tip, "M%d %d l-4 8 h8 z", x2, bottom)
	}
}

// number draws the numbers of the changes that took an edge.
func (e edge) number(c *canvas, row int) {
	if len(e.taken) == 0 {
		return
	}
	var words []string
	for _, n := range e.taken {
		words = append(words, fmt.Sprint(n))
	}
	numbers := strings.Join(words, " ")
	if len(words) > 3 {
		numbers = fmt.Sprintf("%s … %s", words[0], words[len(words)-1])
	}
	x1, x2 := e.from*statePitch, e.to*statePitch
	arc := e.arc()
	switch {
	case arc == 0:
		badge(c, (x1+stateWidth+x2-6)/2, row, numbers)
	case arc < 0:
		badge(c, (x1+x2+stateWidth)/2, row-stateHeight/2+arc*15/16, numbers)
	default:
		badge(c, (x1+x2+stateWidth)/2, row+stateHeight/2+arc*15/16, numbers)
	}
}
