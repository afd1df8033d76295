package main

import (
	"bytes"
	"encoding/base64"
	"image/png"

	"github.com/volsim/volsim/internal/gonb"
	"github.com/volsim/volsim/internal/svgpng"
)

// pngMIME is the MIME type of a stored picture.
const pngMIME = "image/png"

// pictureScale is the number of pixels per pixel of the SVG, for high-resolution displays.
const pictureScale = 2

// storeAsPNG replaces the SVG of a displayed item by a PNG of the same size. It leaves an SVG that
// it cannot convert. data and metadata are by MIME type, as stored in a notebook.
func storeAsPNG(data, metadata map[string]any) {
	svg, ok := data[gonb.SVG]
	if _, has := data[pngMIME]; !ok || has {
		return
	}
	picture, err := svgpng.Convert([]byte(joinLines(svg)), pictureScale)
	if err != nil {
		return
	}
	delete(data, gonb.SVG)
	data[pngMIME] = base64.StdEncoding.EncodeToString(picture.PNG)
	metadata[pngMIME] = map[string]any{"width": picture.Width} // a narrow page scales the height
}

// keepPictures replaces the pictures of a notebook by the stored ones with equal pixels. Another
// version of Go may compress the same picture to other bytes.
func (n *notebook) keepPictures(stored *notebook) {
	for i, c := range n.cells {
		if i >= len(stored.cells) {
			return
		}
		outputs, _ := c.doc["outputs"].([]any)
		before, _ := stored.cells[i].doc["outputs"].([]any)
		for j := range min(len(outputs), len(before)) {
			now, was := dataOf(outputs[j]), dataOf(before[j])
			if samePicture(now[pngMIME], was[pngMIME]) {
				now[pngMIME] = was[pngMIME]
			}
		}
	}
}

// dataOf returns the forms of an output by MIME type.
func dataOf(output any) map[string]any {
	o, _ := output.(map[string]any)
	data, _ := o["data"].(map[string]any)
	return data
}

// samePicture reports whether two stored PNGs have the same pixels.
func samePicture(a, b any) bool {
	if a == nil || b == nil {
		return false
	}
	if joinLines(a) == joinLines(b) {
		return true
	}
	var pixels [2][]byte
	for i, text := range []string{joinLines(a), joinLines(b)} {
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return false
		}
		img, err := png.Decode(bytes.NewReader(raw))
		if err != nil {
			return false
		}
		size := img.Bounds().Size()
		pixels[i] = append(pixels[i], byte(size.X), byte(size.X>>8))
		for y := range size.Y {
			for x := range size.X {
				r, g, b, _ := img.At(x, y).RGBA()
				pixels[i] = append(pixels[i], byte(r), byte(g), byte(b))
			}
		}
	}
	return bytes.Equal(pixels[0], pixels[1])
}
