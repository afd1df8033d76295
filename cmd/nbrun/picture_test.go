package main

import (
	"bytes"
	"encoding/base64"
	"image/png"
	"testing"

	"github.com/volsim/volsim/internal/gonb"
)

const smallSVG = `<svg xmlns="http://www.w3.org/2000/svg" width="8" height="4"><text y="4">a</text></svg>`

func TestPicturesAreStoredAsPNG(t *testing.T) {
	for _, c := range []struct {
		name, svg string
		stored    bool // as a PNG
	}{
		{"supported SVG", smallSVG, true},
		{"unsupported SVG", `<svg xmlns="http://www.w3.org/2000/svg" width="8" height="4"><ellipse/></svg>`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			data, metadata := map[string]any{gonb.SVG: splitLines(c.svg), gonb.Plain: "a"}, map[string]any{}
			storeAsPNG(data, metadata)
			_, hasSVG := data[gonb.SVG]
			_, hasPNG := data[pngMIME]
			if hasPNG != c.stored || hasSVG == c.stored || data[gonb.Plain] != "a" {
				t.Errorf("stored %v", data)
			}
			if size, _ := metadata[pngMIME].(map[string]any); c.stored && size["width"] != 8 {
				t.Errorf("metadata %v, want the width of the SVG", metadata)
			}
		})
	}
}

func TestEqualPicturesKeepTheirBytes(t *testing.T) {
	// withPicture returns a notebook with one picture.
	withPicture := func(text any) *notebook {
		n := newNotebook()
		n.add("code", "a", "")
		n.cells[0].doc["outputs"] = []any{map[string]any{"data": map[string]any{pngMIME: text}}}
		return n
	}
	data := map[string]any{gonb.SVG: smallSVG}
	storeAsPNG(data, map[string]any{})
	current := data[pngMIME].(string)
	raw, err := base64.StdEncoding.DecodeString(current)
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.NoCompression}).Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	img.(interface{ SetColorIndex(x, y int, index uint8) }).SetColorIndex(0, 0, 1)
	var other bytes.Buffer
	if err := png.Encode(&other, img); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		stored []byte
		kept   bool
	}{
		{"compressed differently", b.Bytes(), true},
		{"one other pixel", other.Bytes(), false},
		{"not a picture", []byte("PNG"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			stored := base64.StdEncoding.EncodeToString(c.stored) + "\n" // as Jupyter saves it
			n := withPicture(current)
			n.keepPictures(withPicture(stored))
			if got := dataOf(n.cells[0].doc["outputs"].([]any)[0])[pngMIME]; (got == stored) != c.kept {
				t.Errorf("kept %q: %t, want %t", stored, got == stored, c.kept)
			}
		})
	}
}
