package picture

import "image"

// Text is a text of a picture, and the box that it takes in a wide font.
type Text struct {
	Words string
	Box   image.Rectangle
	On    bool // it lies on something that was drawn for it
}

// Layout is where the texts of a picture are, and how far all of it reaches.
func (d *Drawing) Layout() (texts []Text, all image.Rectangle) {
	c := d.form.draw()
	rect := func(b box) image.Rectangle { return image.Rect(b.left, b.top, b.right, b.bottom) }
	for _, s := range c.texts {
		texts = append(texts, Text{s.text, rect(s.at), s.on})
	}
	return texts, rect(c.box).Inset(-margin)
}
