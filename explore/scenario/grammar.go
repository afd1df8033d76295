package scenario

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/volsim/volsim/internal/apirequest"
)

// grammar is the syntax of an act.
type grammar struct {
	words   string // after the verb and the kind, in the form of help texts
	args    int    // number of words after the first; -1: any number
	options []string
}

// acts holds the grammars by verb and kind.
var acts = map[string]grammar{
	"create volume":   {"NAME SIZE", 1, []string{"class", "reclaim", "for", "modes", "handle", "path", "by", "node", "mode"}},
	"create claim":    {"NAME SIZE", 1, []string{"class", "volume", "modes", "mode", "snapshot", "clone", "app"}},
	"create class":    {"NAME", 0, []string{"provisioner", "binding", "reclaim", "default"}},
	"create pod":      {"NAME [CLAIM …]", -1, []string{"on", "devices", "group", "change", "level", "reads", "sub"}},
	"create snapshot": {"NAME CLAIM", 1, []string{"class"}}, "create groupsnapshot": {"NAME APP", 1, []string{"class"}},
	"delete volume": {"NAME", 0, nil}, "delete claim": {"NAME", 0, nil}, "delete class": {"NAME", 0, nil},
	"delete pod": {"NAME", 0, []string{"now"}}, "delete RESOURCE": {"NAME", 0, nil},
	"patch RESOURCE": {"NAME PATH=VALUE …", -1, nil},
	"set volume":     {"NAME", 0, []string{"reclaim", "for", "bind", "migrated"}}, "set claim": {"NAME", 0, []string{"reclaim", "size"}},
	"set node":   {"NODE", 0, []string{"ready", "out-of-service"}},
	"set pod":    {"NAME", 0, []string{"ready", "exits"}},
	"finish pod": {"NAME", 0, nil}, "write pod": {"NAME CLAIM", 1, []string{"size"}}, "read pod": {"NAME CLAIM WRITER", 2, nil},
	"cordon": {"NODE", 0, nil}, "uncordon": {"NODE", 0, nil},
	"wait RESOURCE": {"NAME PHASE, PATH=VALUE …, condition=TYPE …, exists or gone", -1, nil},
	"pass":          {"DURATION", 0, nil}, "limit": {"NUMBER", 0, nil}, "let": {"EVENT", -1, nil},
	"disk": {"NODE PATH SIZE", 2, []string{"block"}}, "lose": {"NODE PATH", 1, nil},
}

// ParseAct parses an act. The error names the invalid part.
func ParseAct(text string) (Act, error) {
	a, err := parseAct(text)
	if err != nil {
		return Act{}, fmt.Errorf("act %q: %w", text, err)
	}
	return a, nil
}

func parseAct(text string) (Act, error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return Act{}, errors.New("want a verb, such as create")
	}
	if manifest, is := manifestOf(text); is {
		return parseApply(manifest)
	}
	a := Act{verb: words[0]}
	if a.verb == "request" {
		var err error
		a.request, err = apirequest.Parse(strings.TrimPrefix(strings.TrimSpace(text), a.verb))
		return a, err
	}
	form, rest, err := formOf(words)
	if err != nil {
		return a, err
	}
	g := acts[form]
	if strings.Contains(form, " ") {
		a.kind, form = words[1], a.verb+" "+words[1]
	}
	if len(rest) == 0 {
		return a, g.wanted(form)
	}
	if a.verb == "let" {
		a.name = strings.Join(rest, " ")
		return a, nil
	}
	a.name = rest[0]
	if a.verb == "patch" || a.verb == "wait" {
		return a.withFields(text, g, form)
	}
	for _, w := range rest[1:] {
		if key, value, is := strings.Cut(w, "="); is {
			if !slices.Contains(g.options, key) {
				return a, fmt.Errorf("unknown option %q (have %s)", key+"=", optionList(g.options))
			}
			a.options = append(a.options, option{key, value})
			continue
		}
		a.args = append(a.args, w)
	}
	if g.args >= 0 && len(a.args) != g.args {
		return a, g.wanted(form)
	}
	return a, a.check(g)
}

// phases are those of the kinds of objects that have a word of their own.
var phases = map[string][]string{
	"claim":  {"Pending", "Bound", "Lost"},
	"volume": {"Pending", "Available", "Bound", "Released", "Failed"},
	"pod":    {"Pending", "Running", "Succeeded", "Failed", "Unknown"},
}

// checkPhase returns an error if no object of the kind is ever as a word of a wait requires.
func (a Act) checkPhase(word string) error {
	known, checked := phases[a.kind]
	if !checked || word == "gone" || word == "exists" {
		return nil
	}
	for _, phase := range strings.Split(word, "|") {
		if slices.Contains(known, phase) {
			continue
		}
		if _, err := resource.ParseQuantity(word); err == nil && a.kind == "claim" {
			return nil
		}
		return fmt.Errorf("phase %q of a %s: want one of %s, or exists or gone", phase, a.kind, strings.Join(known, ", "))
	}
	return nil
}

// formOf returns the verb with the kind, if it has one, and the words that follow.
func formOf(words []string) (form string, rest []string, err error) {
	verb := words[0]
	if _, alone := acts[verb]; alone {
		return verb, words[1:], nil
	}
	var forms []string
	for _, known := range slices.Sorted(maps.Keys(acts)) {
		if strings.HasPrefix(known, verb+" ") {
			forms = append(forms, known)
		}
	}
	switch {
	case forms == nil:
		return "", nil, fmt.Errorf("unknown act %q", verb)
	case len(words) == 1:
		return "", nil, fmt.Errorf("want %s", strings.Join(forms, ", "))
	}
	form = verb + " " + words[1]
	if _, known := acts[form]; known {
		return form, words[2:], nil
	}
	if _, generic := acts[verb+anyResource]; generic {
		return verb + anyResource, words[2:], nil
	}
	return "", nil, fmt.Errorf("unknown act %q (have %s)", form, strings.Join(forms, ", "))
}

// anyResource is the end of the form of an act for every resource.
const anyResource = " RESOURCE"

// withFields returns a patch or wait with the words after the name.
func (a Act) withFields(text string, g grammar, form string) (Act, error) {
	for _, word := range []string{a.verb, a.kind, a.name} {
		text = strings.TrimPrefix(strings.TrimSpace(text), word)
	}
	words, err := assignments(text)
	if err != nil {
		return a, err
	}
	if a.args = words; len(words) == 0 {
		return a, g.wanted(form)
	}
	if a.verb == "patch" {
		_, _, err = a.mergePatch()
		return a, err
	}
	for _, word := range words {
		key, value, is := strings.Cut(word, "=")
		switch {
		case !is && (word == "gone" || word == "exists") && len(words) > 1:
			return a, fmt.Errorf("%s stands alone", word)
		case !is:
			if err := a.checkPhase(word); err != nil {
				return a, err
			}
		case is && key == "condition" && value == "":
			return a, errors.New("condition=: want the type of a condition, such as condition=Ready")
		case is && key != "condition":
			if _, err := parseFieldPath(key); err != nil {
				return a, err
			}
		}
	}
	return a, nil
}

// wanted returns the error for an act with too few or too many words.
func (g grammar) wanted(form string) error {
	if len(g.options) == 0 {
		return fmt.Errorf("want %s %s", form, g.words)
	}
	return fmt.Errorf("want %s %s, then options: %s", form, g.words, optionList(g.options))
}

// optionList returns the names of options as they are written.
func optionList(options []string) string {
	if len(options) == 0 {
		return "none"
	}
	return strings.Join(options, "=, ") + "="
}

// check validates the words of an act.
func (a Act) check(g grammar) error {
	switch {
	case a.verb == "create" && (a.kind == "volume" || a.kind == "claim"):
		_, restored := a.option("snapshot")
		if _, cloned := a.option("clone"); restored && cloned {
			return errors.New("want snapshot= or clone=, not both")
		}
		if _, err := resource.ParseQuantity(a.args[0]); err != nil {
			return fmt.Errorf("size %q: want a quantity, such as 64Mi", a.args[0])
		}
	case a.verb == "set" && a.kind == "node" && len(a.options) != 1:
		return errors.New("want ready= or out-of-service=")
	case a.verb == "set" && len(a.options) == 0:
		return fmt.Errorf("want an option: %s", optionList(g.options))
	case a.verb == "set" && a.kind == "claim", a.verb == "write":
		if size, given := a.option("size"); given {
			if _, err := resource.ParseQuantity(size); err != nil {
				return fmt.Errorf("size %q: want a quantity, such as 64Mi", size)
			}
		}
	case a.verb == "create" && a.kind == "pod":
		if group, given := a.option("group"); given {
			if n, err := strconv.ParseInt(group, 10, 64); err != nil || n < 0 {
				return errors.New("group: want a number")
			}
		}
	case a.verb == "disk":
		if _, err := resource.ParseQuantity(a.args[1]); err != nil {
			return fmt.Errorf("size %q: want a quantity, such as 64Mi", a.args[1])
		}
		if block, given := a.option("block"); given && block != "true" {
			return errors.New("block: want true")
		}
	case a.verb == "limit":
		if n, err := strconv.Atoi(a.name); err != nil || n < 0 {
			return errors.New("want a number")
		}
	case a.verb == "pass":
		if d, err := time.ParseDuration(a.name); err != nil || d <= 0 {
			return errors.New("want a duration, such as 5m")
		}
	}
	return nil
}
