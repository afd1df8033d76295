package notebook_test

import "github.com/volsim/volsim/examples/notebook"

// A drawing has an SVG and a text form.
type drawing struct{}

func (drawing) Text() string { return "data → disk" }

func (drawing) SVG() []byte {
	return []byte(`<svg xmlns="http://www.w3.org/2000/svg" width="80" height="20"><text y="15">data → disk</text></svg>`)
}

// In a notebook this displays formatted text and a picture, in a terminal the text below.
func Example() {
	notebook.Markdown("The claim is **Bound**:")
	notebook.Show(drawing{})
	// Output:
	// The claim is **Bound**:
	// data → disk
}
