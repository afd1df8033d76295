package picture_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore/scenario"
	_ "github.com/volsim/volsim/fake/crd" // for the records of local storage
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace/picture"
)

// frequentFaults inject many faults into each world.
const frequentFaults = "conflict(0.05), refused(0.03), lost(0.05), driver Unavailable(0.05), hang(0.02), relist(0.02), expire(0.01), " +
	"crash(pvcontroller, 1), crash(attachdetach, 1), crash(kubelet(node-1), 1), reboot(node-1, 1)"

// Every picture of random runs of the built-in scenarios is well-formed and lies within its frame. Its
// texts do not overlap, and drawing it again produces the same bytes.
func TestEveryRunCanBeDrawn(t *testing.T) {
	t.Parallel()
	risks, err := sim.ParseFaultSpecs(frequentFaults)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range scenario.Book() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(3) {
				strategy := sim.Strategy(sim.NewReplayStrategy(nil))
				if seed > 0 {
					chaos, err := sim.NewFaultInjector(sim.NewPOS(seed), seed, risks, 400, cluster.EventKinds...)
					if err != nil {
						t.Fatal(err)
					}
					strategy = chaos
				}
				r, err := s.Run(t.Context(), scenario.Options{Strategy: strategy, StepsMax: 3000})
				if err != nil {
					t.Fatal(err)
				}
				ran := run{r.Trace.Records(), scenario.Picture(s, r)}
				for kind, draw := range kinds {
					d, again := draw(ran.records, ran.options), draw(ran.records, ran.options)
					check(t, fmt.Sprintf("%s, seed %d", kind, seed), d)
					if !bytes.Equal(d.SVG(), again.SVG()) || d.Mermaid() != again.Mermaid() || d.Text() != again.Text() {
						t.Errorf("%s, seed %d: the second drawing differs", kind, seed)
					}
				}
				all := picture.Options{TaskLanes: seed == 1, Width: int(seed) * 320}
				check(t, fmt.Sprintf("all of seed %d", seed), picture.SpaceTime(ran.records, all))
			}
		})
	}
}

// check checks the properties of every picture.
func check(t *testing.T, what string, d *picture.Drawing) {
	t.Helper()
	svg := d.SVG()
	view := viewBox(t, svg)
	texts, all := d.Layout()
	if view != [4]int{all.Min.X, all.Min.Y, all.Dx(), all.Dy()} {
		t.Errorf("%s: the view is %v, the elements need %v", what, view, all)
	}
	for i, a := range texts {
		if !a.Box.In(all) {
			t.Errorf("%s: %q lies outside the picture: %v is not in %v", what, a.Words, a.Box, all)
		}
		for _, b := range texts[:i] {
			if a.Box.Overlaps(b.Box) {
				t.Errorf("%s: %q at %v and %q at %v overlap", what, a.Words, a.Box, b.Words, b.Box)
				return
			}
		}
	}
	if both := d.Contradictions(); len(both) > 0 {
		t.Errorf("%s: drawn both as seen and as never seen: %v", what, both)
	}
	if strings.TrimSpace(d.Text()) == "" || d.Mermaid() == "" {
		t.Errorf("%s: it has no text form", what)
	}
}

// viewBox returns the view box of an SVG, and checks that the SVG is well-formed and self-contained.
func viewBox(t *testing.T, svg []byte) (view [4]int) {
	t.Helper()
	decoder := xml.NewDecoder(bytes.NewReader(svg))
	seen := map[string]int{}
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		start, is := token.(xml.StartElement)
		if !is {
			continue
		}
		seen[start.Name.Local]++
		for _, a := range start.Attr {
			switch a.Name.Local {
			case "viewBox":
				for i, field := range strings.Fields(a.Value) {
					if view[i], err = strconv.Atoi(field); err != nil {
						t.Fatal(err)
					}
				}
			case "href", "src", "id", "onload":
				t.Errorf("<%s> has %s=%q", start.Name.Local, a.Name.Local, a.Value)
			}
		}
	}
	if seen["title"] != 1 || seen["desc"] != 1 || seen["style"] != 1 || seen["script"] != 0 || view[2] == 0 {
		t.Errorf("elements %v, view %v", seen, view)
	}
	return view
}
