package picture

import "image"

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
