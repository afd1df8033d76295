package picture

import (
	"cmp"
	"fmt"
	"slices"
)

// pageWidth is the default width of a picture.
const pageWidth = 1000

// The layout of lanes and rows, in pixels.
const (
	pitchMin  = 54
	pitchMax  = 104
	pitchLow  = 34 // minimum if the words are below their rows
	levelsLow = 4  // maximum lines of lane names then
	lineStep  = 16 // distance of lines of text
	newsStep  = 5  // distance of arrivals
	textMin   = 380
	headStep  = 17
	headAgain = 1200 // a higher picture repeats the heads at the foot
)

// A frame is the layout of a picture with lanes.
type frame struct {
	pitch  int
	lanes  []string
	levels int  // lines of lane names
	words  int  // where the text begins
	room   int  // width of the text
	below  bool // the text is below the rows, not next to the lanes
}

// newFrame returns the layout for a width of the picture, 0 for the default.
func newFrame(lanes []string, wide int) frame {
	inner := cmp.Or(wide, pageWidth) - 2*margin
	f := frame{lanes: lanes, below: wide > 0 && inner < pitchMin*(len(lanes)+1)+40+textMin}
	if f.below {
		f.pitch = min(pitchMax, max(pitchLow, inner/len(lanes)))
		f.stagger(levelsLow)
		f.words, f.room = f.leftEnd(), inner
		return f
	}
	room := inner - textMin
	if wide > 0 {
		room -= 40 + pitchMin // the number, and the first name's left half
	}
	f.pitch = min(pitchMax, max(pitchMin, room/len(lanes)))
	f.stagger(2)
	f.words = f.pitch*len(lanes) + 40
	f.room = max(textMin, inner-f.words)
	if wide > 0 {
		f.room = max(textMin, f.room+f.leftEnd())
	}
	return f
}

// leftEnd returns how far the names of the lanes reach to the left of 0, as a negative number.
func (f frame) leftEnd() int {
	end := 0
	for i, name := range f.lanes {
		end = min(end, f.x(i)-width(f.name(name), sizeText)/2)
	}
	return end
}

// stagger sets the lines of lane names to as many as the longest name needs, at most so many.
func (f *frame) stagger(levelsMax int) {
	f.levels = 1
	for _, name := range f.lanes {
		for f.levels < levelsMax && width(name, sizeText) > f.levels*f.pitch-8 {
			f.levels++
		}
	}
}

// name returns the name of a lane as far as it has room.
func (f frame) name(name string) string { return cut(name, sizeText, f.levels*f.pitch-6) }

// edge returns the right end of the text.
func (f frame) edge() int { return f.words + f.room }

// x returns the position of a lane.
func (f frame) x(lane int) int { return f.pitch*lane + f.pitch/2 }

// headsHeight returns the height of the names of the lanes.
func (f frame) headsHeight() int { return f.levels*headStep + 4 }

// heads draws the names of the lanes and returns their lower end.
func (f frame) heads(c *canvas, class ink, y int) int {
	for i, name := range f.lanes {
		c.text(class, middle, f.x(i), y+12+i%f.levels*headStep, f.name(name))
	}
	return y + f.headsHeight()
}

// caption returns the title and a summary.
func (p *spaceTime) caption() (title, description string) {
	late := 0
	for _, s := range p.strokes {
		if s.what == "late" || s.what == "never" {
			late++
		}
	}
	return p.title, fmt.Sprintf("A space-time diagram with %d lanes and %d rows; time runs downward. %d writes were seen late or not at all.",
		len(p.lanes), p.rows(), late)
}

// rows returns the number of rows.
func (p *spaceTime) rows() int {
	rows := 0
	for i := range p.moments {
		if p.moments[i].row {
			rows++
		}
	}
	return rows
}

// A spaceTimeDrawer draws a space-time diagram.
type spaceTimeDrawer struct {
	*spaceTime
	frame
	c      *canvas
	ys     []int // of the moments
	again  []int // where the names of the lanes are repeated
	top    int
	bottom int
	server int
}

func (p *spaceTime) draw() *canvas {
	l := &spaceTimeDrawer{spaceTime: p, frame: newFrame(p.lanes, p.width), c: &canvas{}}
	for i, name := range p.lanes {
		if name == server {
			l.server = i
		}
	}
	y := 0
	for _, line := range wrap(p.title, sizeTitle, l.edge()*100/115) {
		l.c.text("title", left, 0, y, line)
		y += 22
	}
	l.top = l.heads(l.c, "text", y+2)
	l.place()
	l.drawBands()
	l.drawLanes()
	l.drawStrokes()
	l.drawRows()
	for _, y := range l.again {
		l.heads(l.c, "halo", y)
	}
	y = l.bottom + 6
	if y > headAgain {
		y = l.heads(l.c, "text", y)
	}
	y = l.drawEnd(y + 10)
	l.drawLegend(y + 4)
	return l.c
}

// lines returns the lines of text of a row.
func (l *spaceTimeDrawer) lines(m *moment) (words, notes []string) {
	words = wrap(m.words, sizeText, l.room)
	if l.below {
		words = wrap(m.numbered(), sizeText, l.room)
	}
	for _, note := range m.notes {
		notes = append(notes, wrap(note, sizeText, l.room)...)
	}
	return words, notes
}

// place computes the position of each moment.
func (l *spaceTimeDrawer) place() {
	y, after := l.top+4, false
	row, rows := 0, l.rows()
	for i := range l.moments {
		m := &l.moments[i]
		if !m.row {
			y += newsStep
			l.ys = append(l.ys, y)
			after = true
			continue
		}
		if after {
			y += 4
		}
		after = false
		if repeatsHeads(row, rows) {
			l.again = append(l.again, y)
			y += l.headsHeight() + 4
		}
		row++
		words, notes := l.lines(m)
		l.ys = append(l.ys, y+10)
		y += l.drop(m)
		y += max(1, len(words)+len(notes))*lineStep + 8
	}
	l.bottom = y + 4
}

// drop returns how far below the line of a row its text is.
func (l *spaceTimeDrawer) drop(m *moment) int {
	if l.below && m.lane >= 0 {
		return lineStep + 2
	}
	return 0
}

// drawBands draws the background.
func (l *spaceTimeDrawer) drawBands() {
	for i := range l.moments {
		if m := &l.moments[i]; m.violation {
			words, notes := l.lines(m)
			before := chooseInt(l.below, 0, 36) // the number
			l.c.rect("band", l.words-before, l.ys[i]-11, l.room+before+4, (len(words)+len(notes))*lineStep+l.drop(m)+6, 4)
		}
	}
	for _, s := range l.spaceTime.staleSpans {
		l.c.rect("band", l.x(s.lane)-7, l.ys[s.from], 14, max(4, l.ys[s.to]-l.ys[s.from]), 7)
	}
}

func (l *spaceTimeDrawer) drawLanes() {
	for _, gap := range l.downSpans {
		defer l.c.cross("mark", l.x(gap.lane), l.ys[gap.from])
	}
	for i := range l.spaceTime.lanes {
		y := l.top
		for _, gap := range l.downSpans {
			if gap.lane != i {
				continue
			}
			l.c.line("lane", l.x(i), y, l.x(i), l.ys[gap.from])
			l.c.line("down", l.x(i), l.ys[gap.from], l.x(i), l.ys[gap.to])
			y = l.ys[gap.to]
		}
		if y < l.bottom {
			l.c.line("lane", l.x(i), y, l.x(i), l.bottom)
		}
	}
}

// pill returns half the width of the background of a resourceVersion.
func pill(version int) int { return width(fmt.Sprint(version), sizeSmall)/2 + 6 }

// drawStrokes draws deliveries first, so that actions lie above them.
func (l *spaceTimeDrawer) drawStrokes() {
	for _, layer := range [][]ink{{"news"}, {"never", "old", "late"}, {"write", "refused", "lost"}} {
		for _, s := range l.strokes {
			for _, what := range layer {
				if s.what == what {
					l.drawStroke(s)
				}
			}
		}
	}
}

func (l *spaceTimeDrawer) drawStroke(s stroke) {
	x1, y1, x2, y2 := l.x(s.from), l.ys[s.fromMoment], l.x(s.to), l.ys[s.toMoment]
	towards := 1
	if x2 < x1 {
		towards = -1
	}
	switch s.what {
	case "news":
		l.c.line("news", x1, y1, x2, y2)
		l.c.dot("newstip", x2, y2, 2)
	case "late", "old":
		l.c.line("late", x1, y1, x2, y2)
		l.c.dot("latetip", x2, y2, 4)
	case "never":
		l.c.line("never", x1, y1, x2, y2)
		l.c.cross("mark", x2, y2)
	case "refused":
		l.c.line("refused", x1, y1, x2-towards*8, y2)
		l.c.cross("mark", x2, y2)
		l.c.dot("spot", x1, y1, 4)
	default:
		if s.what == "lost" {
			defer l.c.cross("mark", x1, y1)
		}
		end := 5
		if m := &l.moments[s.toMoment]; m.version > 0 {
			end = pill(m.version)
		}
		l.c.line("write", x1, y1, x2-towards*(end+6), y2)
		l.c.arrow("tip", x2-towards*end, y2, towards)
		l.c.dot("spot", x1, y1, 4)
		if end == 5 {
			l.c.dot("spot", x2, y2, 4)
		}
	}
}

func (l *spaceTimeDrawer) drawRows() {
	for i := range l.moments {
		m, y := &l.moments[i], l.ys[i]
		if !m.row {
			continue
		}
		if m.version > 0 {
			half := pill(m.version)
			l.c.rect("pill", l.x(l.server)-half, y-7, 2*half, 14, 7)
			l.c.textOn("rv", middle, l.x(l.server), y+4, fmt.Sprint(m.version))
		}
		words, notes := l.lines(m)
		if m.number > 0 && !l.below {
			l.c.text("small", right, l.words-8, y+4, fmt.Sprint(m.number))
		}
		class := ink("text")
		switch m.kind {
		case injected, remark, refused:
			class = "hot"
		case folded:
			class = "note"
			if !l.below {
				l.c.line("pause", 0, y, l.words-34, y)
			}
		}
		hot := ink("hot")
		if l.below { // above the lanes
			hot = "hothalo"
			class = ink(choose(class == "hot", "hothalo", "halo"))
		}
		at := y + 4 + l.drop(m)
		for _, line := range words {
			l.c.text(class, left, l.words, at, line)
			at += lineStep
		}
		for _, line := range notes {
			l.c.text(hot, left, l.words, at, line)
			at += lineStep
		}
	}
}

// drawEnd draws the end of the picture and returns its lower end.
func (l *spaceTimeDrawer) drawEnd(y int) int {
	y = l.drawStaleAtEnd(y)
	for _, v := range l.verdict {
		for _, line := range wrap(v, sizeText, l.edge()*100/115) {
			y += lineStep
			l.c.text("who", left, 0, y, line)
		}
	}
	return y
}

// drawStaleAtEnd draws, below the lanes, a table of the cached and the actual states at the end.
func (l *spaceTimeDrawer) drawStaleAtEnd(y int) int {
	if len(l.staleAtEnd) == 0 {
		return y
	}
	if l.below {
		for _, b := range l.staleAtEnd {
			for _, line := range wrap("At the end: "+b.String(), sizeText, l.edge()) {
				y += lineStep
				l.c.text("hot", left, 0, y, line)
			}
		}
		return y
	}
	table := [][3]string{{"At the end", "actual", "cached"}}
	for _, b := range l.staleAtEnd {
		table = append(table, [3]string{b.object, b.actual, b.process + ": " + b.cached})
	}
	const gap = 28
	room, x := l.edge(), 0
	var xs [3]int
	for i := range xs {
		xs[i] = x
		most := 0
		for _, row := range table {
			most = max(most, width(row[i], sizeText))
		}
		x += min(most, room/3-gap) + gap
	}
	l.c.rect("panel", -8, y-2, min(x, room)+8, len(table)*lineStep+12, 4)
	for n, row := range table {
		y += lineStep
		for i, words := range row {
			class := [3]ink{"text", "text", "hot"}[i]
			if n == 0 {
				class = "note"
			}
			l.c.text(class, left, xs[i], y, cut(words, sizeText, room/3-gap))
		}
	}
	return y + 14
}

// drawLegend draws a legend of the lines that occur.
func (l *spaceTimeDrawer) drawLegend(y int) {
	words := map[ink]string{
		"write": "write or call", "refused": "refused", "lost": "done, response lost", "news": "seen by a cache",
		"late": "seen after acting without it", "never": "not seen", "old": "old list", "down": "down",
	}
	has := map[ink]bool{"down": len(l.downSpans) > 0}
	for _, s := range l.strokes {
		has[s.what] = true
	}
	y += lineStep + 4
	x := 0
	for _, what := range []ink{"write", "refused", "lost", "news", "late", "never", "old", "down"} {
		if !has[what] {
			continue
		}
		if l.below && x > 0 && x+32+width(words[what], sizeSmall) > l.edge() {
			x, y = 0, y+lineStep
		}
		l.drawSample(what, x, y-3)
		l.c.text("small", left, x+32, y, words[what])
		x += 32 + width(words[what], sizeSmall) + 20
	}
	if !slices.ContainsFunc(l.moments, func(m moment) bool { return m.version > 0 }) {
		return
	}
	half := pill(12)
	if l.below && x+2*half+6+width("resourceVersion", sizeSmall) > l.edge() {
		x, y = 0, y+lineStep
	}
	l.c.rect("pill", x, y-10, 2*half, 14, 7)
	l.c.textOn("rv", middle, x+half, y+1, "12")
	l.c.text("small", left, x+2*half+6, y, "resourceVersion")
}

// drawSample draws a line for the legend.
func (l *spaceTimeDrawer) drawSample(what ink, x, y int) {
	switch what {
	case "lost":
		l.c.line("write", x+5, y, x+26, y)
		l.c.cross("mark", x+5, y)
	case "old":
		l.c.line("late", x, y, x+26, y)
		l.c.dot("latetip", x+26, y, 4)
	default:
		l.c.line(what, x, y, x+26, y)
	}
}
