package picture

import (
	"fmt"
	"image"
)

// A Text is a text of a picture and its box in a wide font.
type Text struct {
	Words string
	Box   image.Rectangle
	On    bool // on a background drawn for it
}

// Layout returns the texts of a picture and its bounding box.
func (d *Drawing) Layout() (texts []Text, all image.Rectangle) {
	c := d.form.draw()
	rect := func(b box) image.Rectangle { return image.Rect(b.left, b.top, b.right, b.bottom) }
	for _, s := range c.texts {
		texts = append(texts, Text{s.text, rect(s.at), s.on})
	}
	return texts, rect(c.box).Inset(-margin)
}

// Contradictions returns the writes that a space-time diagram draws both as seen and as never seen
// by one process.
func (d *Drawing) Contradictions() []string {
	p, is := d.form.(*spaceTime)
	if !is {
		return nil
	}
	var all []string
	for _, never := range p.strokes {
		for _, seen := range p.strokes {
			if never.what == "never" && (seen.what == "news" || seen.what == "late") &&
				never.to == seen.to && never.fromMoment == seen.fromMoment {
				all = append(all, fmt.Sprintf("%s, version %d", p.lanes[seen.to], p.moments[seen.fromMoment].version))
			}
		}
	}
	return all
}
