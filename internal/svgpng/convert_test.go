package svgpng

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// decoded converts an SVG and decodes the PNG.
func decoded(t *testing.T, svg string, scale int) image.Image {
	t.Helper()
	p, err := Convert([]byte(svg), scale)
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(p.PNG))
	if err != nil {
		t.Fatal(err)
	}
	if size := img.Bounds().Size(); size.X != scale*p.Width || size.Y != scale*p.Height {
		t.Errorf("PNG of %v pixels for an SVG of %d × %d", size, p.Width, p.Height)
	}
	return img
}

// Each kind of picture is converted. The notebooks of the lessons contain others.
func TestPicturesConvert(t *testing.T) {
	paths, err := filepath.Glob("../../sim/trace/picture/testdata/conflict.*.svg")
	if err != nil || len(paths) != 4 {
		t.Fatalf("%d pictures, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			svg, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			p, isPalette := decoded(t, string(svg), 1).(*image.Paletted)
			if !isPalette || len(p.Palette) < 20 {
				t.Errorf("not an image with a palette of at least 20 colours")
			}
		})
	}
}

// inSVG returns an SVG of 20 × 10 pixels with a small stylesheet.
func inSVG(elements string) string {
	return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="-10 0 20 10" width="20" height="10"><title>t</title><style>
		.v text{font:10px sans-serif,"x"} .v line{fill:none}
		.v .red,.v .edge{fill:#ff0000}
		.v .edge,.v .thin,.v .dashed{stroke:#0000ff;stroke-width:2}
		.v .dashed{stroke-dasharray:4 4}
		.v .bold{font-weight:600}
		@media (prefers-color-scheme:dark){ .v .red{fill:#00ff00} }
		</style>` + elements + "</svg>"
}

func TestElements(t *testing.T) {
	white, red, blue, black := color.RGBA{255, 255, 255, 255}, color.RGBA{255, 0, 0, 255}, color.RGBA{0, 0, 255, 255}, color.RGBA{0, 0, 0, 255}
	pink, dark := color.RGBA{255, 128, 128, 255}, color.RGBA{}
	type pixels map[image.Point]color.RGBA
	for _, c := range []struct {
		name, elements string
		want           pixels // dark: not white
	}{
		{"nothing", "", pixels{{0, 0}: white, {39, 19}: white}},
		{"rectangle", `<rect class="red" x="-10" y="1" width="5" height="2"/>`, pixels{{0, 1}: white, {0, 2}: red, {9, 5}: red, {10, 5}: white, {0, 6}: white}},
		{"half of a pixel", `<rect class="red" x="-10" y="0" width="0.25" height="5"/>`, pixels{{0, 0}: pink, {1, 0}: white}},
		{"round corners", `<rect class="red" x="-10" y="0" width="10" height="10" rx="5"/>`, pixels{{0, 0}: white, {19, 19}: white, {10, 0}: red, {10, 10}: red}},
		{"stroke over fill", `<rect class="edge" x="-8" y="2" width="6" height="6"/>`, pixels{{4, 4}: blue, {5, 8}: blue, {6, 8}: red, {2, 8}: blue, {1, 8}: white}},
		{"line", `<line class="thin" x1="-10" y1="5" x2="10" y2="5"/>`, pixels{{20, 7}: white, {20, 8}: blue, {20, 11}: blue, {20, 12}: white}},
		{"dashes", `<line class="dashed" x1="-10" y1="5" x2="10" y2="5"/>`, pixels{{0, 9}: blue, {7, 9}: blue, {8, 9}: white, {15, 9}: white, {16, 9}: blue}},
		{"circle", `<circle class="red" cx="0" cy="5" r="3"/>`, pixels{{20, 10}: red, {14, 10}: red, {13, 10}: white, {14, 4}: white}},
		{"path", `<path class="red" d="M-10 0 h4 v4 l-4 0 z m10 0 l8 0 v4 h-8 z"/>`, pixels{{0, 0}: red, {7, 7}: red, {8, 0}: white, {20, 7}: red, {35, 0}: red, {36, 0}: white}},
		{"curve", `<path class="red" d="M-10 0 C -10 10 10 10 10 0 z"/>`, pixels{{20, 2}: red, {20, 14}: red, {20, 16}: white, {1, 10}: white}},
		{"text", `<text x="-10" y="9">▶I</text>`, pixels{{38, 2}: white}},
		{"end of a text", `<text x="10" y="9" text-anchor="end">■</text>`, pixels{{0, 12}: white, {33, 12}: black}},
		{"middle of a text", `<text x="0" y="9" text-anchor="middle">H</text>`, pixels{{20, 10}: dark, {4, 10}: white, {36, 10}: white}},
	} {
		t.Run(c.name, func(t *testing.T) {
			img := decoded(t, inSVG(c.elements), 2)
			for at, want := range c.want {
				got := color.RGBAModel.Convert(img.At(at.X, at.Y)).(color.RGBA)
				if got != want && (want != dark || got == white) {
					t.Errorf("pixel %v is %v, want %v", at, got, want)
				}
			}
		})
	}
}

func TestTooManyColoursAreRounded(t *testing.T) {
	img := image.NewRGBA(image.Rect(0, 0, 256, 256))
	for x := range 256 {
		for y := range 256 {
			img.SetRGBA(x, y, color.RGBA{uint8(x), uint8(y), uint8(x ^ y), 255})
		}
	}
	out := withPalette(img).(*image.Paletted)
	for _, c := range []struct{ at, want color.RGBA }{
		{color.RGBA{R: 0, G: 0}, color.RGBA{0, 0, 0, 255}},
		{color.RGBA{R: 255, G: 0}, color.RGBA{255, 0, 255, 255}},
		{color.RGBA{R: 100, G: 30}, color.RGBA{102, 51, 102, 255}},
	} {
		if got := out.At(int(c.at.R), int(c.at.G)); got != c.want {
			t.Errorf("colour %v is drawn as %v, want %v", img.At(int(c.at.R), int(c.at.G)), got, c.want)
		}
	}
}

func TestUnsupportedElementsAreErrors(t *testing.T) {
	for _, c := range []struct{ svg, want string }{
		{"", "no SVG"},
		{"<svg", "parse SVG"},
		{"<line/>", "outside"},
		{`<svg width="0" height="5"/>`, "size 0"},
		{`<svg width="1e6" height="1e6"/>`, "size 2000000"},
		{`<svg width="20" height="5" viewBox="0 0 10 5"/>`, "view box"},
		{inSVG("<g/>"), "g: not supported"},
		{inSVG(`<line transform="scale(2)"/>`), "attribute transform"},
		{inSVG(`<line x1="NaN"/>`), "out of range"},
		{inSVG(`<line x1="one"/>`), `"one"`},
		{inSVG(`<path d="M0 0 A1 1"/>`), "path"},
		{inSVG(`<path d="l1 1"/>`), "path"},
		{inSVG(`<path d="M1"/>`), "path"},
		{inSVG(`<text text-anchor="top">x</text>`), "text-anchor"},
		{inSVG(`<style>a > b {fill:none}</style>`), "selector"},
		{inSVG(`<style>.c {fill:red}</style><rect class="c"/>`), "colour"},
		{inSVG(`<style>.c {opacity:0.5}</style><rect class="c"/>`), "opacity"},
		{inSVG(`<style>.c {stroke-dasharray:0 0}</style><rect class="c"/>`), "0 0"},
	} {
		if _, err := Convert([]byte(c.svg), 2); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.svg, err, c.want)
		}
	}
}
