package picture

import (
	"fmt"
)

// The layout of a sequence diagram, in pixels.
const (
	askMin   = 300 // minimum width of the text of a message
	askMax   = 460 // maximum width, unless the arrow is longer
	askPitch = 150 // maximum distance of lanes
)

func (p *sequence) caption() (title, description string) {
	return p.title, fmt.Sprintf("A sequence diagram with %d lanes and %d messages; time runs downward.",
		len(p.lanes), len(p.messages))
}

func (p *sequence) draw() *canvas {
	c := &canvas{}
	f := frame{lanes: p.lanes, pitch: min(askPitch, max(pitchMin, (pageWidth-2*margin)/len(p.lanes)))}
	f.stagger(2)
	edge := max(f.pitch*len(p.lanes), f.x(0)+askMin+60)
	y := 0
	for _, line := range wrap(p.title, sizeTitle, max(edge, 640)*100/115) {
		c.text("title", left, 0, y, line)
		y += 22
	}
	top := f.heads(c, "text", y+2)
	low := &canvas{} // drawn above the lanes, whose length depends on the messages
	y = top + 6
	for i := range p.messages {
		if repeatsHeads(i, len(p.messages)) {
			y = f.heads(low, "halo", y+4)
		}
		y = p.drawMessage(low, f, &p.messages[i], y, edge)
	}
	for i := range p.lanes {
		c.line("lane", f.x(i), top, f.x(i), y+4)
	}
	c.appendCanvas(low)
	if y > headAgain {
		y = f.heads(c, "text", y+8)
	}
	y += 14
	for _, v := range p.verdict {
		for _, line := range wrap(v, sizeText, max(edge, 640)*100/115) {
			y += lineStep
			c.text("who", left, 0, y, line)
		}
	}
	return c
}

// drawMessage draws a message and returns its lower end.
func (p *sequence) drawMessage(c *canvas, f frame, m *message, y, edge int) int {
	if m.to < 0 {
		return p.drawNote(c, f, m, y, edge)
	}
	x1, x2 := f.x(m.from), f.x(m.to)
	lo, hi := min(x1, x2), max(x1, x2)
	room := max(hi-lo-12, askMin)
	at, x := left, lo+8
	if edge-lo < room+8 { // more room to the left
		at, x = right, hi-8
		room = max(hi-lo-12, min(askMax, hi-8))
	} else {
		room = max(hi-lo-12, min(askMax, edge-lo-8))
	}
	lines := wrap(m.numbered(), sizeText, room)
	if m.violation {
		w := 0
		for _, line := range lines {
			w = max(w, width(line, sizeText))
		}
		c.rect("band", chooseInt(at == left, x, x-w)-4, y+1, w+8, len(lines)*lineStep+2, 4)
	}
	for _, line := range lines {
		y += lineStep
		c.text("halo", at, x, y-2, line)
	}
	y += 7
	towards := chooseInt(x2 < x1, -1, 1)
	switch m.what {
	case "refused":
		c.line("refused", x1, y, x2-towards*7, y)
		c.cross("mark", x2, y)
	case "lost":
		c.line("write", x1, y, x2-towards*8, y)
		c.arrow("tip", x2-towards, y, towards)
		c.cross("mark", x1, y)
	default:
		c.line("write", x1, y, x2-towards*8, y)
		c.arrow("tip", x2-towards, y, towards)
	}
	return y + 8
}

// drawNote draws a note over all lanes or over one.
func (p *sequence) drawNote(c *canvas, f frame, m *message, y, edge int) int {
	lines := wrap(m.numbered(), sizeText, max(askMin, edge-40))
	w := 0
	for _, line := range lines {
		w = max(w, width(line, sizeText))
	}
	x := edge / 2
	if m.from >= 0 {
		x = min(max(f.x(m.from), w/2+8), max(edge-w/2-8, w/2+8))
	}
	c.rect("panel", x-w/2-8, y+2, w+16, len(lines)*lineStep+6, 4)
	for _, line := range lines {
		y += lineStep
		c.textOn(m.what, middle, x, y, line)
	}
	return y + 14
}

func chooseInt(is bool, yes, no int) int {
	if is {
		return yes
	}
	return no
}
