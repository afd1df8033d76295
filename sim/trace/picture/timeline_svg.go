package picture

import (
	"fmt"
	"time"
)

// The layout of a timeline, in pixels.
const (
	namesWidth = 230
	trackStep  = 28
	barHeight  = 18
	tickMin    = 56 // minimum distance of ticks
)

func (p *timeline) caption() (title, description string) {
	tracks := 0
	for _, g := range p.groups {
		tracks += len(g.tracks)
	}
	return p.title, fmt.Sprintf("A timeline with %d lanes; time runs to the right.", tracks)
}

// A ruler maps instants to positions. Three quarters of the width are for the number of instants,
// one quarter for the time between them.
type ruler struct {
	xs    []int // of the instants, and of the end
	left  int
	right int
}

func (p *timeline) ruler(left, right int) ruler {
	n := len(p.instants)
	r := ruler{left: left, right: right}
	var total time.Duration
	if n > 0 {
		total = p.instants[n-1].at - p.instants[0].at
	}
	room := right - left
	for i := range n {
		x := room * i / max(1, n)
		if total > 0 {
			passed := p.instants[i].at - p.instants[0].at
			x = room*3*i/(4*n) + int(int64(room)*int64(passed/time.Microsecond)/int64(4*(total/time.Microsecond+1)))
		}
		r.xs = append(r.xs, left+x)
	}
	r.xs = append(r.xs, right)
	return r
}

func (p *timeline) draw() *canvas {
	c := &canvas{}
	edge := pageWidth - 2*margin
	y := 0
	for _, line := range wrap(p.title, sizeTitle, edge*100/115) {
		c.text("title", left, 0, y, line)
		y += 22
	}
	r := p.ruler(namesWidth, edge)
	low := &canvas{} // drawn above the lines of events
	begins := y + 4
	y = p.drawTicks(low, r, p.drawEvents(low, r, begins))
	for _, g := range p.groups {
		y += 10
		low.text("small", left, 0, y+10, g.title)
		y += 16
		for _, k := range g.tracks {
			p.drawTrack(low, r, k, y)
			y += trackStep
		}
	}
	for i, e := range p.events {
		c.line("event", r.xs[e.at], begins+(len(p.events)-i)*lineStep+4, r.xs[e.at], y)
	}
	c.appendCanvas(low)
	y = p.drawLegend(c, y)
	y += 4
	for _, v := range p.verdict {
		for _, line := range wrap(v, sizeText, edge*100/115) {
			y += lineStep
			c.text("who", left, 0, y, line)
		}
	}
	return c
}

// drawEvents draws the names of the events above their lines, one below the other.
func (p *timeline) drawEvents(c *canvas, r ruler, y int) int {
	for i := len(p.events) - 1; i >= 0; i-- {
		e := p.events[i]
		words := cut(e.words, sizeText, r.right-20)
		y += lineStep
		w := width(words, sizeText)
		c.text("hothalo", left, min(max(0, r.xs[e.at]-w/2), r.right-w), y, words)
	}
	return y + 6
}

// drawTicks draws the axis.
func (p *timeline) drawTicks(c *canvas, r ruler, y int) int {
	c.line("lane", r.left, y+20, r.right, y+20)
	n := len(p.instants)
	if n == 0 {
		return y + 24
	}
	passes := p.instants[n-1].at > p.instants[0].at
	c.text("small", left, 0, y+14, choose(passes, "time (not to scale)", "steps"))
	next, last := r.left-tickMin, ""
	for i, now := range p.instants {
		if r.xs[i] < next+tickMin || r.xs[i] > r.right-tickMin/2 && i < n-1 {
			continue
		}
		if passes && i > 0 && now.at == p.instants[i-1].at {
			continue
		}
		words := fmt.Sprint(now.number)
		if passes {
			words = formatDuration(now.at - p.instants[0].at)
		}
		if r.xs[i]+2+width(words, sizeSmall) > r.right || words == last {
			continue
		}
		last = words
		next = r.xs[i]
		c.line("lane", r.xs[i], y+16, r.xs[i], y+24)
		c.text("tick", left, r.xs[i]+2, y+13, words)
	}
	return y + 24
}

func (p *timeline) drawTrack(c *canvas, r ruler, k track, y int) {
	if k.under == "" {
		c.text("text", left, 0, y+13, cut(k.name, sizeText, namesWidth-12))
	} else {
		c.text("text", left, 0, y+7, cut(k.name, sizeText, namesWidth-12))
		c.text("small", left, 0, y+19, cut(k.under, sizeSmall, namesWidth-12))
	}
	c.line("guide", r.left, y+barHeight/2, r.right, y+barHeight/2)
	for _, f := range k.phases {
		x, w := r.xs[f.from], max(3, r.xs[f.to]-r.xs[f.from]-1)
		c.rect(f.what, x, y, w, barHeight, 3)
		if f.words != "" && width(f.words, sizeSmall) <= w-6 {
			c.textOn("onbar", left, x+4, y+13, f.words)
		}
	}
	for _, t := range k.tries {
		if t.failed {
			c.cross("mark", r.xs[t.at], y+barHeight/2)
		} else {
			c.dot("spot", r.xs[t.at], y+barHeight/2, 5)
		}
	}
}

// drawLegend draws a legend of the colours that occur and returns its lower end.
func (p *timeline) drawLegend(c *canvas, y int) int {
	has := map[ink]bool{}
	for _, g := range p.groups {
		for _, k := range g.tracks {
			for _, f := range k.phases {
				has[f.what] = true
			}
			for _, t := range k.tries {
				has[ink(choose(t.failed, "mark", "spot"))] = true
			}
		}
	}
	x := 0
	y += lineStep + 6
	for _, entry := range []struct {
		what  ink
		words string
	}{
		{"busy", "in progress"},
		{"calm", "available, attached"},
		{"half", "staged"},
		{"firm", "bound, running, published"},
		{"past", "ending"},
		{"wait", "waits to retry"},
		{"mark", "fails"},
		{"spot", "succeeds"},
	} {
		if !has[entry.what] {
			continue
		}
		switch entry.what {
		case "mark":
			c.cross("mark", x+8, y-3)
		case "spot":
			c.dot("spot", x+8, y-3, 5)
		default:
			c.rect(entry.what, x, y-9, 18, 12, 3)
		}
		c.text("small", left, x+24, y, entry.words)
		x += 24 + width(entry.words, sizeSmall) + 20
	}
	return y + 4
}
