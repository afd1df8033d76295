package svgpng

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"slices"
	"strings"
)

// A Picture is a converted SVG.
type Picture struct {
	PNG           []byte
	Width, Height int // size of the SVG; the PNG has more pixels
}

// sizeMax limits the number of pixels of a picture.
const sizeMax = 64 << 20

// Convert converts an SVG to a PNG with scale pixels per pixel of the SVG.
func Convert(svg []byte, scale int) (Picture, error) {
	p := &painter{scale: scale}
	d := xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Picture{}, fmt.Errorf("parse SVG: %w", err)
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		if err := p.element(d, start); err != nil {
			return Picture{}, fmt.Errorf("SVG element %s: %w", start.Name.Local, err)
		}
	}
	if p.img == nil {
		return Picture{}, errors.New("no SVG element")
	}
	var b bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&b, withPalette(p.img)); err != nil {
		return Picture{}, err
	}
	return Picture{PNG: b.Bytes(), Width: p.img.Rect.Dx() / scale, Height: p.img.Rect.Dy() / scale}, nil
}

// A painter draws elements in the order of the SVG.
type painter struct {
	scale  int
	origin point // of the view box
	sheet  sheet
	img    *image.RGBA
	fonts  fonts
}

// attributes lists the supported attributes of each element. The style of the svg element only
// concerns its size in a page.
var attributes = map[string][]string{
	"svg":    {"xmlns", "class", "role", "viewBox", "width", "height", "style"},
	"title":  nil,
	"desc":   nil,
	"style":  nil,
	"line":   {"class", "x1", "y1", "x2", "y2"},
	"rect":   {"class", "x", "y", "width", "height", "rx"},
	"circle": {"class", "cx", "cy", "r"},
	"path":   {"class", "d"},
	"text":   {"class", "x", "y", "text-anchor"},
}

// element draws one element and reads to its end, except for the svg element.
func (p *painter) element(d *xml.Decoder, start xml.StartElement) error {
	name := start.Name.Local
	supported, ok := attributes[name]
	if !ok {
		return errors.New("not supported")
	}
	for _, a := range start.Attr {
		if !slices.Contains(supported, a.Name.Local) {
			return fmt.Errorf("attribute %s is not supported", a.Name.Local)
		}
	}
	if name == "svg" {
		return p.begin(start)
	}
	if p.img == nil {
		return errors.New("outside of the svg element")
	}
	var text string
	if err := d.DecodeElement(&text, &start); err != nil {
		return err
	}
	switch name {
	case "title", "desc":
		return nil
	case "style":
		return p.sheet.parse(text)
	}
	n := numbers{start: start, scale: p.scale}
	look, err := p.sheet.look(name, strings.Fields(n.text("class")), p.scale)
	if err != nil {
		return err
	}
	var s shape
	switch name {
	case "line":
		s.lines = []line{{points: []point{{n.number("x1"), n.number("y1")}, {n.number("x2"), n.number("y2")}}}}
	case "rect":
		s = roundRect(n.number("x"), n.number("y"), n.number("width"), n.number("height"), n.number("rx"))
	case "circle":
		r := n.number("r")
		s = roundRect(n.number("cx")-r, n.number("cy")-r, 2*r, 2*r, r)
	case "path":
		s, n.err = parsePath(n.text("d"), p.scale)
	case "text":
		s, n.err = p.fonts.text(text, look, n.text("text-anchor"), point{n.number("x"), n.number("y")})
	}
	if n.err == nil {
		p.draw(s, look)
	}
	return n.err
}

// begin creates the image.
func (p *painter) begin(start xml.StartElement) error {
	if p.img != nil {
		return errors.New("nested")
	}
	n := numbers{start: start, scale: p.scale}
	w, h := n.number("width"), n.number("height")
	if n.err != nil {
		return n.err
	}
	if box := strings.Fields(n.text("viewBox")); len(box) > 0 {
		if len(box) != 4 || box[2] != n.text("width") || box[3] != n.text("height") {
			return fmt.Errorf("view box %q: want four numbers, the last two equal to width and height", box)
		}
		var errX, errY error
		p.origin.x, errX = parseNumber(box[0], p.scale)
		p.origin.y, errY = parseNumber(box[1], p.scale)
		if err := errors.Join(errX, errY); err != nil {
			return err
		}
	}
	w, h = w/unit, h/unit
	if w <= 0 || h <= 0 || w > sizeMax/h {
		return fmt.Errorf("size %d × %d is not supported", w, h)
	}
	p.img = image.NewRGBA(image.Rect(0, 0, w, h))
	for i := range p.img.Pix {
		p.img.Pix[i] = 0xff
	}
	return nil
}

// draw fills and strokes a shape. Text is stroked first, so that its stroke is a halo.
func (p *painter) draw(s shape, l look) {
	s.move(point{-p.origin.x, -p.origin.y})
	if s.glyphs && l.stroke != nil {
		fill(p.img, s.stroke(l), *l.stroke)
	}
	if l.fill != nil {
		fill(p.img, s.contours(), *l.fill)
	}
	if !s.glyphs && l.stroke != nil {
		fill(p.img, s.stroke(l), *l.stroke)
	}
}

// withPalette returns the image with a palette. It rounds colours if they are too many.
func withPalette(img *image.RGBA) image.Image {
	for _, shades := range []int{255, 85, 51, 17} {
		if out, ok := withShades(img, shades); ok {
			return out
		}
	}
	out, _ := withShades(img, 5) // at most 6³ colours
	return out
}

// withShades returns the image with a palette of colours that have so many shades of red, green and
// blue besides 0. It fails if there are more than 256.
func withShades(img *image.RGBA, shades int) (*image.Paletted, bool) {
	round := func(part uint8) uint8 { return uint8((int(part)*shades + 127) / 255 * 255 / shades) }
	index := map[color.RGBA]uint8{}
	out := image.NewPaletted(img.Rect, nil)
	for i := range out.Pix {
		c := color.RGBA{round(img.Pix[4*i]), round(img.Pix[4*i+1]), round(img.Pix[4*i+2]), 0xff}
		at, ok := index[c]
		if !ok {
			if len(out.Palette) == 256 {
				return nil, false
			}
			at = uint8(len(out.Palette))
			out.Palette, index[c] = append(out.Palette, c), at
		}
		out.Pix[i] = at
	}
	return out, true
}
