package svgpng

import (
	"fmt"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
)

// fonts holds the fonts of a painter, once they are needed.
type fonts struct {
	regular, bold *sfnt.Font
	buffer        sfnt.Buffer
}

// load returns a font.
func (f *fonts) load(bold bool) (*sfnt.Font, error) {
	font, source := &f.regular, goregular.TTF
	if bold {
		font, source = &f.bold, gobold.TTF
	}
	if *font == nil {
		var err error
		if *font, err = sfnt.Parse(source); err != nil {
			return nil, err
		}
	}
	return *font, nil
}

// text returns the outlines of a text. Each character begins at a whole pixel, so that equal
// characters have equal pixels.
func (f *fonts) text(words string, l look, anchor string, at point) (shape, error) {
	s := shape{glyphs: true}
	face, err := f.load(l.bold)
	if err != nil {
		return s, err
	}
	size := fixed.Int26_6(l.size)
	var glyphs []sfnt.GlyphIndex
	var advances []int
	width := 0
	for _, r := range words {
		glyph, err := face.GlyphIndex(&f.buffer, r)
		if err != nil {
			return s, err
		}
		advance, err := face.GlyphAdvance(&f.buffer, glyph, size, font.HintingNone)
		if err != nil {
			return s, err
		}
		glyphs, advances = append(glyphs, glyph), append(advances, int(advance))
		width += int(advance)
	}
	switch anchor {
	case "", "start":
	case "middle":
		at.x -= width / 2
	case "end":
		at.x -= width
	default:
		return s, fmt.Errorf("text-anchor %q is not supported", anchor)
	}
	for i, glyph := range glyphs {
		segments, err := face.LoadGlyph(&f.buffer, glyph, size, nil)
		if err != nil {
			return s, err
		}
		s.addGlyph(segments, point{floor(at.x+unit/2, unit) * unit, at.y})
		at.x += advances[i]
	}
	return s, nil
}

// addGlyph adds the outlines of a character.
func (s *shape) addGlyph(segments sfnt.Segments, at point) {
	move := func(p fixed.Point26_6) point { return point{at.x + int(p.X), at.y + int(p.Y)} }
	for _, segment := range segments {
		to := segment.Args
		if segment.Op == sfnt.SegmentOpMoveTo {
			s.lines = append(s.lines, line{[]point{move(to[0])}, true})
			continue
		}
		last := &s.lines[len(s.lines)-1]
		from := last.points[len(last.points)-1]
		switch segment.Op {
		case sfnt.SegmentOpLineTo:
			last.points = append(last.points, move(to[0]))
		case sfnt.SegmentOpQuadTo:
			last.points = appendQuadratic(last.points, from, move(to[0]), move(to[1]), glyphSteps)
		case sfnt.SegmentOpCubeTo:
			last.points = appendCubic(last.points, from, move(to[0]), move(to[1]), move(to[2]), glyphSteps)
		}
	}
}
