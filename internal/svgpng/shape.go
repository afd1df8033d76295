package svgpng

import (
	"encoding/xml"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A point is a position in units of 1/64 pixel; y grows downward.
type point struct{ x, y int }

// A line is a sequence of points; a closed line ends at its first point.
type line struct {
	points []point
	closed bool
}

// A shape is what an element draws.
type shape struct {
	lines  []line
	glyphs bool // it is text
}

func (s shape) move(by point) {
	for _, l := range s.lines {
		for i := range l.points {
			l.points[i].x += by.x
			l.points[i].y += by.y
		}
	}
}

// contours returns the contours to fill.
func (s shape) contours() [][]point {
	var all [][]point
	for _, l := range s.lines {
		all = append(all, l.points)
	}
	return all
}

// stroke returns the contours of the shape's stroke: a rectangle for each segment, and a disc for
// each joint.
func (s shape) stroke(l look) [][]point {
	var all [][]point
	for _, each := range s.lines {
		if each.closed {
			each.points = append(each.points[:len(each.points):len(each.points)], each.points[0])
		}
		for _, points := range dashes(each.points, l.dashes) {
			for i := range points[1:] {
				all = append(all, thick(points[i], points[i+1], l.width))
				if i > 0 || each.closed {
					all = append(all, disc(points[i], l.width/2))
				}
			}
		}
	}
	return all
}

// dashes cuts a line into dashes. lengths alternates dashes and gaps; nil does not cut.
func dashes(points []point, lengths []int) [][]point {
	if len(lengths) == 0 {
		return [][]point{points}
	}
	var all [][]point
	var dash []point
	at, remaining, drawn := 0, lengths[0], true
	dash = append(dash, points[0])
	for i := range points[1:] {
		from, to := points[i], points[i+1]
		length := distance(from, to)
		done := 0
		for length-done >= remaining {
			done += remaining
			cut := point{from.x + (to.x-from.x)*done/length, from.y + (to.y-from.y)*done/length}
			if drawn {
				all = append(all, append(dash, cut))
			}
			at, drawn = (at+1)%len(lengths), !drawn
			dash, remaining = []point{cut}, lengths[at]
		}
		remaining -= length - done
		dash = append(dash, to)
	}
	if drawn && len(dash) > 1 {
		all = append(all, dash)
	}
	return all
}

// thick returns the rectangle around a segment, clockwise.
func thick(from, to point, width int) []point {
	length := distance(from, to)
	if length == 0 {
		return nil
	}
	x, y := (to.y-from.y)*width/(2*length), (from.x-to.x)*width/(2*length)
	return []point{{from.x + x, from.y + y}, {to.x + x, to.y + y}, {to.x - x, to.y - y}, {from.x - x, from.y - y}}
}

// distance returns the distance of two points. The square root of an integer is the same on all
// processors.
func distance(a, b point) int {
	return int(math.Sqrt(float64((a.x-b.x)*(a.x-b.x) + (a.y-b.y)*(a.y-b.y))))
}

func disc(center point, radius int) []point {
	return rounded(center.x-radius, center.y-radius, 2*radius, 2*radius, radius, discSteps)
}

// roundRect returns a rectangle with round corners.
func roundRect(x, y, w, h, r int) shape {
	return shape{lines: []line{{rounded(x, y, w, h, r, cornerSteps), true}}}
}

// rounded returns a rectangle with round corners, clockwise. Each corner has so many segments.
func rounded(x, y, w, h, r, steps int) []point {
	r = min(r, w/2, h/2)
	if r == 0 {
		return []point{{x, y}, {x + w, y}, {x + w, y + h}, {x, y + h}}
	}
	k := r * 4477 / 10000 // distance from the corner to the control point of a quarter circle
	var points []point
	for _, corner := range [][4]point{
		{{x + w - r, y}, {x + w - k, y}, {x + w, y + k}, {x + w, y + r}},
		{{x + w, y + h - r}, {x + w, y + h - k}, {x + w - k, y + h}, {x + w - r, y + h}},
		{{x + r, y + h}, {x + k, y + h}, {x, y + h - k}, {x, y + h - r}},
		{{x, y + r}, {x, y + k}, {x + k, y}, {x + r, y}},
	} {
		points = append(points, corner[0])
		points = appendCubic(points, corner[0], corner[1], corner[2], corner[3], steps)
	}
	return points
}

// The number of segments of a curve depends on its usual size.
const (
	pathSteps   = 32
	cornerSteps = 8
	discSteps   = 2
	glyphSteps  = 4
)

// appendCubic appends a curve as n segments.
func appendCubic(points []point, a, b, c, d point, n int) []point {
	for i := 1; i <= n; i++ {
		j := n - i
		at := func(a, b, c, d int) int {
			return floor(j*j*j*a+3*j*j*i*b+3*j*i*i*c+i*i*i*d+n*n*n/2, n*n*n)
		}
		points = append(points, point{at(a.x, b.x, c.x, d.x), at(a.y, b.y, c.y, d.y)})
	}
	return points
}

// appendQuadratic appends a curve as n segments.
func appendQuadratic(points []point, a, b, c point, n int) []point {
	for i := 1; i <= n; i++ {
		j := n - i
		at := func(a, b, c int) int { return floor(j*j*a+2*j*i*b+i*i*c+n*n/2, n*n) }
		points = append(points, point{at(a.x, b.x, c.x), at(a.y, b.y, c.y)})
	}
	return points
}

// parsePath parses the data of a path with the commands M, m, l, h, v, C and z.
func parsePath(text string, scale int) (shape, error) {
	var s shape
	var at point
	last := func() *line { return &s.lines[len(s.lines)-1] }
	var command byte
	words := pathWords(text)
	for len(words) > 0 {
		if c := words[0][0]; c >= 'A' {
			command, words = c, words[1:]
		} else if command == 'm' {
			command = 'l'
		}
		count, ok := map[byte]int{'M': 2, 'm': 2, 'l': 2, 'h': 1, 'v': 1, 'C': 6, 'z': 0}[command]
		if !ok || len(words) < count || count == 0 && len(s.lines) == 0 || command != 'M' && len(s.lines) == 0 {
			return shape{}, fmt.Errorf("path %q is not supported", text)
		}
		var v [6]int
		for i, word := range words[:count] {
			var err error
			if v[i], err = parseNumber(word, scale); err != nil {
				return shape{}, err
			}
		}
		words = words[count:]
		if command != 'M' && command != 'm' && last().closed {
			return shape{}, fmt.Errorf("path %q is not supported", text)
		}
		switch command {
		case 'M':
			at = point{v[0], v[1]}
			s.lines = append(s.lines, line{points: []point{at}})
		case 'm':
			at = point{at.x + v[0], at.y + v[1]}
			s.lines = append(s.lines, line{points: []point{at}})
		case 'l':
			at = point{at.x + v[0], at.y + v[1]}
			last().points = append(last().points, at)
		case 'h':
			at.x += v[0]
			last().points = append(last().points, at)
		case 'v':
			at.y += v[0]
			last().points = append(last().points, at)
		case 'C':
			end := point{v[4], v[5]}
			last().points = appendCubic(last().points, at, point{v[0], v[1]}, point{v[2], v[3]}, end, pathSteps)
			at = end
		case 'z':
			last().closed, at = true, last().points[0]
		}
	}
	return s, nil
}

// pathWords splits the data of a path into commands and numbers.
func pathWords(text string) []string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r >= 'A' && r <= 'z':
			b.WriteString(" " + string(r) + " ")
		case r == ',':
			b.WriteString(" ")
		default:
			b.WriteRune(r)
		}
	}
	return strings.Fields(b.String())
}

// numbers reads the attributes of an element. err is the first error.
type numbers struct {
	start xml.StartElement
	scale int
	err   error
}

func (n *numbers) text(name string) string {
	for _, a := range n.start.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// number returns a coordinate, 0 if the element has no such attribute.
func (n *numbers) number(name string) int {
	text := n.text(name)
	if text == "" {
		return 0
	}
	v, err := parseNumber(text, n.scale)
	if err != nil && n.err == nil {
		n.err = fmt.Errorf("%s: %w", name, err)
	}
	return v
}

// numberMax limits coordinates, in pixels of the SVG.
const numberMax = 1 << 20

// parseNumber converts a number of the SVG to a coordinate.
func parseNumber(text string, scale int) (int, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("number %q: %w", text, errors.Unwrap(err))
	}
	if !(math.Abs(v) <= numberMax) {
		return 0, fmt.Errorf("number %q is out of range", text)
	}
	return int(math.Round(v * float64(scale*unit))), nil
}
