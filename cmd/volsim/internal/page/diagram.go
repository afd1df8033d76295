package page

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/volsim/volsim/sim/trace"
	"github.com/volsim/volsim/sim/trace/picture"
)

// History is what has happened.
type History struct {
	Records       []trace.Record // read-only
	SetupEnd      int            // the step up to which it is not to be drawn: the world was set up
	ViolationStep int            // the step in which a rule was broken; 0: none was
	Violation     string         // how
}

// How many of the last records are drawn, unless one asks for another number, and at most.
const (
	recordsDrawn = 150
	recordsMax   = 2000
)

// draw draws the last records as a space-time diagram.
func (p History) draw(records int, about []string, strands bool) []byte {
	o := picture.Options{
		Title: "Who did what, and who heard of it when", After: p.SetupEnd, ViolationStep: p.ViolationStep, Objects: about, TaskLanes: strands,
	}
	if p.Violation != "" {
		o.Verdict = []string{"Broken: " + p.Violation}
	}
	if left := len(p.Records) - records; left > 0 {
		o.After = max(o.After, p.Records[left-1].Step)
	}
	return picture.SpaceTime(p.Records, o).SVG()
}

// diagram answers with the space-time diagram of a world.
func diagram(world World) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		records := recordsDrawn
		if asked := query.Get("records"); asked != "" {
			n, err := strconv.Atoi(asked)
			if err != nil || n < 1 || n > recordsMax {
				writeError(w, fmt.Errorf("records=%s: want a number from 1 to %d", asked, recordsMax))
				return
			}
			records = n
		}
		var about []string
		if query.Get("about") != "" {
			about = query["about"]
		}
		w.Header().Set("Content-Type", "image/svg+xml")
		_, _ = w.Write(world.History().draw(records, about, query.Get("strands") == "true"))
	}
}
