package picture

import (
	"github.com/volsim/volsim/sim/trace"
)

// Options selects what to draw. The zero value draws the whole run.
type Options struct {
	Title string // "": a title for the type of picture
	// Objects selects the objects to draw, together with related objects. They are named as in an
	// action: "persistentvolumeclaims/default/data", "widgets/default/web". nil selects all claims,
	// volumes, pods and attachments.
	Objects       []string
	Reads         []trace.Read // from caches; see trace.Log.Reads. Those that matter for a write get a row
	After         int          // records up to this step set the initial state and are not drawn
	Latest        int          // draw only so many of the latest records, with the lanes of all processes and drivers; 0: draw all
	ViolationStep int          // the step at which a rule was violated; 0: none
	Remarks       []Remark     // notes between the rows
	Verdict       []string     // lines at the end
	TaskLanes     bool         // SpaceTime: a lane for each task instead of one for each process
	// Width is the width of the SVG of SpaceTime in pixels; 0: about 1000. If it has no room for words
	// next to the lanes, the words are below their rows.
	Width int
}

// A Remark is a note before the events of a step of the host; see trace.Record.
type Remark struct {
	HostStep int
	Words    string
}

// A Drawing is a picture. It is immutable and safe for concurrent use.
type Drawing struct{ form form }

// A form is implemented by each type of picture.
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

// SpaceTime draws the writes, the deliveries to caches, and the stale state from which processes
// acted. Time runs downward. The records must not change afterwards.
func SpaceTime(records []trace.Record, o Options) *Drawing {
	return &Drawing{newSpaceTime(newScene(records, o))}
}
