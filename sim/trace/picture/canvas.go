package picture

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
)

// A canvas writes an SVG. Numbers are whole pixels. Elements are in drawing order and have no ids,
// so that one page can hold several pictures.
type canvas struct {
	body  bytes.Buffer
	box   box // of all that was drawn
	texts []drawnText
}

// A box is a rectangle; y grows downward.
type box struct{ left, top, right, bottom int }

// drawnText is a text that was drawn, for tests.
type drawnText struct {
	text string
	at   box
	on   bool // drawn on a background of its own, such as a pill
}

// Sizes of text, in pixels.
const (
	sizeTitle = 16
	sizeText  = 12
	sizeSmall = 10
)

// An ink is a class of the stylesheet.
type ink string

// sizes holds the text sizes of inks other than sizeText.
var sizes = map[ink]int{"title": sizeTitle, "small": sizeSmall, "rv": sizeSmall, "tick": sizeSmall, "onbar": sizeSmall}

func sizeOf(i ink) int {
	if size, has := sizes[i]; has {
		return size
	}
	return sizeText
}

func (c *canvas) extend(left, top, right, bottom int) {
	c.box = box{min(c.box.left, left), min(c.box.top, top), max(c.box.right, right), max(c.box.bottom, bottom)}
}

// line draws a line.
func (c *canvas) line(i ink, x1, y1, x2, y2 int) {
	c.extend(min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2))
	fmt.Fprintf(&c.body, `<line class="%s" x1="%d" y1="%d" x2="%d" y2="%d"/>`+"\n", i, x1, y1, x2, y2)
}

// rect draws a rectangle with round corners.
func (c *canvas) rect(i ink, x, y, w, h, r int) {
	c.extend(x, y, x+w, y+h)
	fmt.Fprintf(&c.body, `<rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="%d"/>`+"\n", i, x, y, w, h, r)
}

// dot draws a circle.
func (c *canvas) dot(i ink, x, y, r int) {
	c.extend(x-r, y-r, x+r, y+r)
	fmt.Fprintf(&c.body, `<circle class="%s" cx="%d" cy="%d" r="%d"/>`+"\n", i, x, y, r)
}

// path draws an SVG path. The path must lie within the other elements.
func (c *canvas) path(i ink, format string, args ...any) {
	fmt.Fprintf(&c.body, `<path class="%s" d="%s"/>`+"\n", i, fmt.Sprintf(format, args...))
}

// arrow draws the head of an arrow that reaches a point from the left (1) or from the right (-1).
func (c *canvas) arrow(i ink, x, y, from int) {
	c.path(i, "M%d %d l%d -4 v8 z", x, y, -8*from)
}

// cross draws an x.
func (c *canvas) cross(i ink, x, y int) {
	c.path(i, "M%d %d l10 10 m0 -10 l-10 10", x-5, y-5)
}

// appendCanvas draws the elements of another canvas on top.
func (c *canvas) appendCanvas(other *canvas) {
	c.body.Write(other.body.Bytes())
	c.texts = append(c.texts, other.texts...)
	c.extend(other.box.left, other.box.top, other.box.right, other.box.bottom)
}

// An anchor says which point of a text its position is.
type anchor string

const (
	left   anchor = "start"
	middle anchor = "middle"
	right  anchor = "end"
)

// text draws a text with its base line at y.
func (c *canvas) text(i ink, at anchor, x, y int, words string) {
	c.write(i, at, x, y, words, false)
}

// textOn draws a text on a background drawn for it.
func (c *canvas) textOn(i ink, at anchor, x, y int, words string) {
	c.write(i, at, x, y, words, true)
}

func (c *canvas) write(i ink, at anchor, x, y int, words string, on bool) {
	size := sizeOf(i)
	w := width(words, size)
	if i == "title" || i == "who" {
		w = bold(words, size)
	}
	b := box{x, y - size*8/10, x + w, y + size/4}
	switch at {
	case middle:
		b.left, b.right = x-w/2, x+(w+1)/2
	case right:
		b.left, b.right = x-w, x
	}
	c.extend(b.left, b.top, b.right, b.bottom)
	c.texts = append(c.texts, drawnText{words, b, on})
	fmt.Fprintf(&c.body, `<text class="%s" x="%d" y="%d"`, i, x, y)
	if at != left {
		fmt.Fprintf(&c.body, ` text-anchor="%s"`, at)
	}
	fmt.Fprintf(&c.body, ">%s</text>\n", escape(words))
}

// escape escapes a text for XML. Characters that XML does not allow become question marks.
func escape(words string) string {
	var b bytes.Buffer
	words = strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(words, "?"))
	if err := xml.EscapeText(&b, []byte(words)); err != nil {
		panic("picture: " + err.Error()) // a buffer accepts every write
	}
	return b.String()
}

// margin is the space around a picture, in pixels.
const margin = 16

// file returns the complete SVG. Screen readers use the title and the description.
func (c *canvas) file(title, description string) []byte {
	x, y := c.box.left-margin, c.box.top-margin
	w, h := c.box.right-x+margin, c.box.bottom-y+margin
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" class="volsim" role="img" viewBox="%d %d %d %d" width="%d" height="%d" style="max-width:100%%;height:auto">`+"\n", x, y, w, h, w, h)
	fmt.Fprintf(&b, "<title>%s</title>\n<desc>%s</desc>\n<style>\n%s</style>\n",
		escape(title), escape(description), style)
	fmt.Fprintf(&b, `<rect class="page" x="%d" y="%d" width="%d" height="%d" rx="6"/>`+"\n", x, y, w, h)
	b.Write(c.body.Bytes())
	b.WriteString("</svg>\n")
	return b.Bytes()
}
