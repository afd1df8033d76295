package picture

import (
	"fmt"
	"strings"
)

// A palette is the colours for one colour scheme. Colours that carry meaning are from the set of
// Okabe and Ito, which readers with colour vision deficiency can distinguish. No meaning is carried
// by colour alone.
type palette struct {
	page, ink, dim, thin, faint, fill string
	write                             string // writes and actual state
	accent, hot, glow                 string // unseen writes: lines, text, background
	calm, half, firm                  string // phases: increasingly complete
	busy, past                        string // starting, ending
}

var (
	light = palette{
		page: "#ffffff", ink: "#1f2328", dim: "#59636e", thin: "#9aa4af", faint: "#d1d9e0", fill: "#f6f8fa",
		write: "#0072b2", accent: "#d55e00", hot: "#a34700", glow: "#fbe3d3", calm: "#cfe8f7", half: "#a9d6f2",
		firm: "#7cc0ea", busy: "#f7ecc3", past: "#e4e4e8",
	}
	dark = palette{
		page: "#0d1117", ink: "#f0f6fc", dim: "#9198a1", thin: "#6e7781", faint: "#3d444d", fill: "#151b23",
		write: "#56b4e9", accent: "#ff8f3f", hot: "#ffa657", glow: "#4a2a12", calm: "#123a56", half: "#0f4a70",
		firm: "#0d6aa5", busy: "#4a4010", past: "#2a2f37",
	}
)

// fonts are the system fonts of the reader.
const fonts = `system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",Arial,sans-serif`

// style is the stylesheet of all pictures.
var style = fmt.Sprintf(`.volsim text{font:%dpx %s}
.volsim .title{font-size:%dpx;font-weight:600}
.volsim .who{font-weight:600}
.volsim .small,.volsim .tick,.volsim .rv,.volsim .onbar{font-size:%dpx}
.volsim path,.volsim line{fill:none}
.volsim .lane{stroke-width:1.5}
.volsim .down,.volsim .pause,.volsim .guide{stroke-dasharray:2 4}
.volsim .write{stroke-width:2}
.volsim .refused{stroke-width:2;stroke-dasharray:7 4}
.volsim .news{stroke-width:1}
.volsim .late{stroke-width:2.5}
.volsim .never{stroke-width:2.5;stroke-dasharray:3 4}
.volsim .event{stroke-width:1.5;stroke-dasharray:4 3}
.volsim .could{stroke-width:1.2}
.volsim .state,.volsim .visited{stroke-width:1.2}
.volsim .here{stroke-width:2.5}
.volsim .halo,.volsim .hothalo,.volsim .tick{paint-order:stroke;stroke-width:4px;stroke-linejoin:round}
.volsim .mark{stroke-width:2.5}
%s@media (prefers-color-scheme:dark){
%s}
`, sizeText, fonts, sizeTitle, sizeSmall, light.rules(), dark.rules())

// rules returns the colour rules.
func (p palette) rules() string {
	var b strings.Builder
	rule := func(classes, property, colour string) {
		var selectors []string
		for _, class := range strings.Fields(classes) {
			selectors = append(selectors, ".volsim ."+class)
		}
		fmt.Fprintf(&b, "%s{%s:%s}\n", strings.Join(selectors, ","), property, colour)
	}
	rule("title text who halo onbar", "fill", p.ink)
	rule("halo tick hothalo", "stroke", p.page)
	rule("small tick note", "fill", p.dim)
	rule("hot hothalo", "fill", p.hot)
	rule("rv", "fill", p.page)
	rule("page", "fill", p.page)
	rule("panel", "fill", p.fill)
	rule("band", "fill", p.glow)
	rule("lane", "stroke", p.dim)
	rule("pause guide", "stroke", p.faint)
	rule("down", "stroke", p.dim)
	rule("news", "stroke", p.thin)
	rule("write refused", "stroke", p.write)
	rule("tip pill spot", "fill", p.write)
	rule("late never mark", "stroke", p.accent)
	rule("latetip", "fill", p.accent)
	rule("event", "stroke", p.accent)
	rule("calm visited", "fill", p.calm)
	rule("half", "fill", p.half)
	rule("firm here", "fill", p.firm)
	rule("busy", "fill", p.busy)
	rule("past", "fill", p.past)
	rule("wait", "fill", p.glow)
	rule("state", "fill", p.page)
	rule("could state", "stroke", p.thin)
	rule("couldtip", "fill", p.thin)
	rule("visited here", "stroke", p.write)
	rule("newstip", "fill", p.thin)
	return b.String()
}
