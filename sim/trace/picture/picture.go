package picture

import (
	"github.com/volsim/volsim/sim/trace"
)

// Options say what of a run is to be drawn. The zero value draws all of it.
type Options struct {
	Title string // "": what sort of picture it is
	// Objects are those that the picture is about, with those that have to do with them, named as in an action:
	// "persistentvolumeclaims/default/data". nil: all claims, volumes, pods and attachments.
	Objects       []string
	After         int      // the records up to this step are what was there before: they are taken note of, and not drawn
	ViolationStep int      // the step at which something was wrong; 0: at none
	Remarks       []Remark // what is to be said in between
	Verdict       []string // what is to be said at the end, a line each
	TaskLanes     bool     // SpaceTime: a lane for each strand, instead of one for each component
}

// Remark is said in a picture before what happened in a turn of the host. See trace.Record.
type Remark struct {
	HostStep int
	Words    string
}

// Drawing is a picture. It does not change, so that several goroutines may ask it for its forms at once.
type Drawing struct{ form form }

// form is what each picture can be asked for.
type form interface {
	draw() *canvas
	caption() (title, description string)
	mermaid() string
	text() string
}

// SVG returns the picture as an SVG file.
func (d *Drawing) SVG() []byte { return d.form.draw().file(d.form.caption()) }

// Mermaid returns the picture as the text of a Mermaid diagram.
func (d *Drawing) Mermaid() string { return d.form.mermaid() }

// Text returns the picture as plain text, for a terminal.
func (d *Drawing) Text() string { return d.form.text() }

// SpaceTime draws who did what, who heard of it when, and what a cache believed that was not so any more. Time runs downward.
// The records are read-only from then on.
func SpaceTime(records []trace.Record, o Options) *Drawing {
	return &Drawing{newSpaceTime(newScene(records, o))}
}
