package svgpng

import (
	"cmp"
	"image"
	"image/color"
	"slices"
)

const (
	unit   = 64            // coordinates per pixel
	strips = 8             // samples of a pixel in height
	strip  = unit / strips // height of a sample
	levels = 8
)

// A crossing is where an edge crosses the middle of a strip.
type crossing struct {
	x         int
	direction int // 1: the edge goes down, -1: up
}

// fill fills the inside of closed contours, by the nonzero rule.
func fill(img *image.RGBA, contours [][]point, c color.RGBA) {
	area := around(contours).Intersect(img.Rect)
	if area.Empty() {
		return
	}
	rows := make([][]crossing, area.Dy()*strips)
	for _, points := range contours {
		for i, from := range points {
			addEdge(rows, area.Min.Y*strips, from, points[(i+1)%len(points)])
		}
	}
	cover := make([]int, area.Dx())
	for y := range area.Dy() {
		for _, row := range rows[y*strips : (y+1)*strips] {
			coverSpans(cover, area.Min.X*unit, row)
		}
		for x, covered := range cover {
			if covered > 0 {
				blend(img.Pix[img.PixOffset(area.Min.X+x, area.Min.Y+y):], c, (covered*levels+unit*strips/2)/(unit*strips))
				cover[x] = 0
			}
		}
	}
}

// around returns the pixels that contours touch.
func around(contours [][]point) image.Rectangle {
	var r image.Rectangle
	for _, points := range contours {
		for _, p := range points {
			x, y := floor(p.x, unit), floor(p.y, unit)
			r = r.Union(image.Rect(x, y, x+1, y+1))
		}
	}
	return r
}

// addEdge adds the crossings of an edge with the middles of strips. top is the number of the first
// strip.
func addEdge(rows [][]crossing, top int, from, to point) {
	direction := 1
	if from.y > to.y {
		from, to, direction = to, from, -1
	}
	from.y, to.y = from.y-top*strip, to.y-top*strip
	first := max(0, floor(from.y+strip/2-1, strip)) // the first whose middle is not above the edge
	for i := first; i < len(rows) && i*strip+strip/2 < to.y; i++ {
		x := from.x + floor((to.x-from.x)*(i*strip+strip/2-from.y), to.y-from.y)
		rows[i] = append(rows[i], crossing{x, direction})
	}
}

// floor divides and rounds down.
func floor(a, b int) int {
	if a < 0 {
		return -((-a + b - 1) / b)
	}
	return a / b
}

// coverSpans adds the spans inside the contours of one strip. left is the coordinate of the first
// pixel.
func coverSpans(cover []int, left int, row []crossing) {
	slices.SortFunc(row, func(a, b crossing) int { return cmp.Compare(a.x, b.x) })
	winding := 0
	for i, c := range row {
		if winding != 0 {
			coverSpan(cover, row[i-1].x-left, c.x-left)
		}
		winding += c.direction
	}
}

// coverSpan adds a span from one coordinate to another.
func coverSpan(cover []int, from, to int) {
	from, to = max(from, 0), min(to, len(cover)*unit)
	for x := from / unit; x*unit < to; x++ {
		cover[x] += min(to, (x+1)*unit) - max(from, x*unit)
	}
}

// blend paints a pixel with an opacity in levels.
func blend(pixel []uint8, c color.RGBA, opacity int) {
	for i, part := range [...]uint8{c.R, c.G, c.B} {
		was := int(pixel[i])
		pixel[i] = uint8((was*(levels-opacity) + int(part)*opacity + levels/2) / levels)
	}
}
