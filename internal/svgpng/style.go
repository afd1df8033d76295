package svgpng

import (
	"fmt"
	"image/color"
	"strconv"
	"strings"
)

// A look says how an element is drawn. Lengths are coordinates.
type look struct {
	fill, stroke *color.RGBA // nil: none
	width        int
	dashes       []int
	size         int // of text
	bold         bool
}

// A sheet is a stylesheet.
type sheet struct{ rules []rule }

// A rule sets properties of the elements of a name or a class.
type rule struct {
	selector     string // "rect" or ".lane"
	declarations [][2]string
}

// parse parses rules, each for elements below a class. It ignores media queries: they are for other
// media or colour schemes.
func (s *sheet) parse(text string) error {
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		selectors, rest, ok := strings.Cut(text, "{")
		if !ok {
			return fmt.Errorf("stylesheet: no rule in %q", text)
		}
		if strings.HasPrefix(selectors, "@media") {
			text = afterBlock(rest)
			continue
		}
		var body string
		if body, text, ok = strings.Cut(rest, "}"); !ok {
			return fmt.Errorf("stylesheet: rule %q has no end", selectors)
		}
		var declarations [][2]string
		for declaration := range strings.SplitSeq(body, ";") {
			if property, value, ok := strings.Cut(declaration, ":"); ok {
				declarations = append(declarations, [2]string{strings.TrimSpace(property), strings.TrimSpace(value)})
			}
		}
		for selector := range strings.SplitSeq(selectors, ",") {
			words := strings.Fields(selector)
			if len(words) == 0 || len(words) > 2 || strings.ContainsAny(selector, ">+~:[#*") {
				return fmt.Errorf("stylesheet: selector %q is not supported", selector)
			}
			s.rules = append(s.rules, rule{words[len(words)-1], declarations})
		}
	}
	return nil
}

// afterBlock returns what follows a block of rules.
func afterBlock(text string) string {
	for depth := 1; depth > 0; {
		at := strings.IndexAny(text, "{}")
		if at < 0 {
			return ""
		}
		if text[at] == '{' {
			depth++
		} else {
			depth--
		}
		text = text[at+1:]
	}
	return text
}

// look returns how an element is drawn. Rules for classes override those for names.
func (s *sheet) look(name string, classes []string, scale int) (look, error) {
	l := look{fill: &color.RGBA{A: 0xff}, width: scale * unit, size: 16 * scale * unit}
	for _, forClass := range []bool{false, true} {
		for _, r := range s.rules {
			class, isClass := strings.CutPrefix(r.selector, ".")
			if isClass != forClass || !isClass && r.selector != name || isClass && !contains(classes, class) {
				continue
			}
			for _, d := range r.declarations {
				if err := l.set(d[0], d[1], scale); err != nil {
					return look{}, fmt.Errorf("stylesheet: %s: %w", d[0], err)
				}
			}
		}
	}
	if name == "line" {
		l.fill = nil
	}
	return l, nil
}

func contains(words []string, word string) bool {
	for _, w := range words {
		if w == word {
			return true
		}
	}
	return false
}

// set sets a property.
func (l *look) set(property, value string, scale int) (err error) {
	length := func(text string) (int, error) { return parseNumber(strings.TrimSuffix(text, "px"), scale) }
	switch property {
	case "fill":
		l.fill, err = parseColour(value)
	case "stroke":
		l.stroke, err = parseColour(value)
	case "stroke-width":
		l.width, err = length(value)
	case "stroke-dasharray":
		l.dashes = nil
		for word := range strings.FieldsSeq(value) {
			n, err := length(word)
			if err != nil || n <= 0 {
				return fmt.Errorf("%q is not supported", value)
			}
			l.dashes = append(l.dashes, n)
		}
		if len(l.dashes)%2 != 0 {
			return fmt.Errorf("%q is not supported", value)
		}
	case "font": // a size and families
		size, _, _ := strings.Cut(value, " ")
		l.size, err = length(size)
	case "font-size":
		l.size, err = length(value)
	case "font-weight":
		l.bold = value == "600" || value == "700" || value == "bold"
	case "stroke-linejoin", "paint-order": // as drawn anyway
	default:
		return fmt.Errorf("not supported")
	}
	return err
}

// parseColour parses none or #rrggbb.
func parseColour(text string) (*color.RGBA, error) {
	if text == "none" {
		return nil, nil
	}
	hex, ok := strings.CutPrefix(text, "#")
	n, err := strconv.ParseUint(hex, 16, 32)
	if !ok || err != nil || len(hex) != 6 {
		return nil, fmt.Errorf("colour %q is not supported", text)
	}
	return &color.RGBA{uint8(n >> 16), uint8(n >> 8), uint8(n), 0xff}, nil
}
