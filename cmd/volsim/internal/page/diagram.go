package page

import (
	"fmt"
	"net/http"
	"net/url"
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

// widthMax is the maximum width of a diagram in pixels.
const widthMax = 4000

// draw draws the latest records as a space-time diagram.
func (p History) draw(records, width int, about []string, taskLanes bool) []byte {
	o := picture.Options{
		Title: "Writes and cache deliveries", After: p.SetupEnd, ViolationStep: p.ViolationStep,
		Objects: about, TaskLanes: taskLanes, Width: width, Latest: records,
	}
	if p.Violation != "" {
		o.Verdict = []string{"Violated: " + p.Violation}
	}
	return picture.SpaceTime(p.Records, o).SVG()
}

// diagram responds with the space-time diagram of a world.
func diagram(world World) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		records, err := number(query, "records", recordsDrawn, recordsMax)
		if err != nil {
			writeError(w, err)
			return
		}
		width, err := number(query, "width", 0, widthMax)
		if err != nil {
			writeError(w, err)
			return
		}
		var about []string
		if query.Get("about") != "" {
			about = query["about"]
		}
		w.Header().Set("Content-Type", "image/svg+xml")
		_, _ = w.Write(world.History().draw(records, width, about, query.Get("tasks") == "true"))
	}
}

// number returns a parameter that is a number from 1 to a maximum.
func number(query url.Values, name string, byDefault, most int) (int, error) {
	text := query.Get(name)
	if text == "" {
		return byDefault, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("invalid %s=%s: want a number from 1 to %d", name, text, most)
	}
	return n, nil
}
