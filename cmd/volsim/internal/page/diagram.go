package page

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/volsim/volsim/sim/trace"
	"github.com/volsim/volsim/sim/trace/picture"
)

// A History is the actions of a world.
type History struct {
	Records       []trace.Record // read-only
	SetupEnd      int            // step at which the setup ended; earlier records are not drawn
	ViolationStep int            // step of the violation; 0: none
	Violation     string         // message of the violation
}

// Number of records to draw: default and maximum.
const (
	recordsDrawn = 150
	recordsMax   = 2000
)

// draw draws the latest records as a space-time diagram.
func (p History) draw(records int, about []string, taskLanes bool) []byte {
	o := picture.Options{
		Title: "Writes and cache deliveries", After: p.SetupEnd, ViolationStep: p.ViolationStep,
		Objects: about, TaskLanes: taskLanes,
	}
	if p.Violation != "" {
		o.Verdict = []string{"Violated: " + p.Violation}
	}
	if left := len(p.Records) - records; left > 0 {
		o.After = max(o.After, p.Records[left-1].Step)
	}
	return picture.SpaceTime(p.Records, o).SVG()
}

// diagram responds with the space-time diagram of a world.
func diagram(world World) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		records := recordsDrawn
		if text := query.Get("records"); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 || n > recordsMax {
				writeError(w, fmt.Errorf("invalid records=%s: want a number from 1 to %d", text, recordsMax))
				return
			}
			records = n
		}
		var about []string
		if query.Get("about") != "" {
			about = query["about"]
		}
		w.Header().Set("Content-Type", "image/svg+xml")
		_, _ = w.Write(world.History().draw(records, about, query.Get("tasks") == "true"))
	}
}
