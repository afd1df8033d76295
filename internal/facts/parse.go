package facts

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// step is a request of a fact, with the expected answer.
type step struct {
	line      int
	text      string // the line in the file
	verb      string
	resource  resource // zero: the step has a path, or reads events
	name, sub string
	namespace string // "": the fact's own; "*": all
	path      string
	query     url.Values
	header    http.Header
	with, as  string
	patch     string // media type
	raw       string // the body, if it is not YAML
	body      any
	hasBody   bool
	want      expectation
	differs   *expectation
}

// expectation is an expected answer.
type expectation struct {
	line    int
	code    int // 0: any success
	reason  string
	message string
	body    any // nil: anything
}

// Parse parses the facts of a file. The error names file and line.
func Parse(file, text string) ([]Fact, error) {
	p := parser{file: file, lets: map[string]any{}}
	for i, line := range strings.Split(text, "\n") {
		p.at = i + 1
		if err := p.line(strings.TrimRight(line, " ")); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, p.at, err)
		}
	}
	if err := p.flush(); err != nil {
		return nil, fmt.Errorf("%s:%d: %w", file, p.at, err)
	}
	return p.facts, p.complete()
}

type parser struct {
	file  string
	at    int
	lets  map[string]any
	facts []Fact
	begun bool // the last fact has more than a name
	block []string
	take  func(block []string) error // handles the indented lines; nil: none are allowed
}

func (p *parser) complete() error {
	for _, f := range p.facts {
		if len(f.steps) == 0 {
			return fmt.Errorf("%s:%d: fact without a request", p.file, f.line)
		}
	}
	return nil
}

// flush handles the indented lines so far.
func (p *parser) flush() error {
	block, take := p.block, p.take
	p.block = nil
	for len(block) > 0 && block[len(block)-1] == "" {
		block = block[:len(block)-1]
	}
	if len(block) == 0 {
		return nil
	}
	if take == nil {
		return errors.New("unexpected indentation")
	}
	p.take = nil
	return take(block)
}

func (p *parser) line(line string) error {
	if indented, ok := strings.CutPrefix(line, "    "); ok {
		p.block = append(p.block, indented)
		return nil
	}
	if line == "" {
		if len(p.block) > 0 {
			p.block = append(p.block, "")
		}
		return nil
	}
	if err := p.flush(); err != nil {
		return err
	}
	p.take = nil
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "#":
		return p.comment(rest)
	case "let":
		p.take = func(block []string) error { return addLet(p.lets, rest, block) }
		return nil
	}
	if len(p.facts) == 0 {
		return errors.New("fact without a name: start it with a comment")
	}
	p.begun = true
	f := &p.facts[len(p.facts)-1]
	switch word {
	case "only":
		if rest != "http" {
			return fmt.Errorf("unknown condition \"only %s\" (have \"only http\")", rest)
		}
		f.http = true
		return nil
	case "alone":
		f.exclusive = true
		return nil
	case "→":
		return p.arrow(f, rest, false)
	case "differs":
		return p.arrow(f, strings.TrimSpace(strings.TrimPrefix(rest, "→")), true)
	}
	s, err := p.request(line)
	if err != nil {
		return err
	}
	f.http = f.http || s.path != "" || s.header != nil || s.raw != "" && s.verb != "patch"
	f.steps = append(f.steps, s)
	return nil
}

func (p *parser) comment(text string) error {
	if len(p.facts) > 0 && !p.begun {
		p.facts[len(p.facts)-1].Name += " " + text
		return nil
	}
	p.begun = false
	p.facts = append(p.facts, Fact{Topic: topicOf(p.file), Name: text, file: p.file, line: p.at, lets: p.lets})
	return nil
}

var verbs = map[string]bool{
	"create": true, "get": true, "list": true, "watch": true, "update": true, "patch": true, "delete": true,
	"deletecollection": true, "events": true,
	http.MethodGet: true, http.MethodPost: true, http.MethodPut: true, http.MethodPatch: true, http.MethodDelete: true,
	http.MethodHead: true, http.MethodOptions: true,
}

var patches = map[string]string{
	"json":      "application/json-patch+json",
	"merge":     "application/merge-patch+json",
	"strategic": "application/strategic-merge-patch+json",
	"apply":     "application/apply-patch+yaml",
}

var (
	isOption = regexp.MustCompile(`^([A-Za-z]+)=(.*)$`)
	isHeader = regexp.MustCompile(`^([A-Z][A-Za-z-]*):(.+)$`)
)

// request parses a request line.
func (p *parser) request(line string) (step, error) {
	words, err := split(line)
	if err != nil {
		return step{}, err
	}
	s := step{line: p.at, text: line, verb: words[0]}
	if !verbs[s.verb] {
		return s, fmt.Errorf("unknown verb %q", s.verb)
	}
	if len(words) < 2 {
		return s, errors.New("request without an object or a path")
	}
	if err := s.parseTarget(words[1]); err != nil {
		return s, err
	}
	raw := false
	for words = words[2:]; len(words) > 0; words = words[1:] {
		used, err := s.parseOption(words)
		if err != nil {
			return s, err
		}
		raw = raw || words[0] == "raw"
		words = words[used:]
	}
	if raw {
		s.raw = " "
	}
	index := len(p.facts) - 1
	p.take = func(block []string) error {
		steps := p.facts[index].steps
		last := &steps[len(steps)-1]
		if raw {
			last.raw = strings.Join(block, "\n")
			return nil
		}
		var err error
		last.body, err = decode(block)
		last.hasBody = true
		return err
	}
	return s, nil
}

// parseOption parses an option of a request, and returns how many further words it used.
func (s *step) parseOption(words []string) (int, error) {
	word := words[0]
	next := func(to *string) (int, error) {
		if len(words) < 2 {
			return 0, fmt.Errorf("%q without a value", word)
		}
		*to = words[1]
		return 1, nil
	}
	if m := isHeader.FindStringSubmatch(word); m != nil {
		if s.header == nil {
			s.header = http.Header{}
		}
		s.header.Add(m[1], m[2])
		return 0, nil
	}
	if m := isOption.FindStringSubmatch(word); m != nil {
		if s.query == nil {
			s.query = url.Values{}
		}
		s.query.Add(m[1], m[2])
		return 0, nil
	}
	switch word {
	case "with":
		return next(&s.with)
	case "as":
		return next(&s.as)
	case "in":
		return next(&s.namespace)
	case "raw":
		return 0, nil
	}
	if patches[word] != "" && s.verb == "patch" {
		s.patch = patches[word]
		return 0, nil
	}
	return 0, fmt.Errorf("unexpected word %q", word)
}

// parseTarget parses the object or the path of a request.
func (s *step) parseTarget(word string) error {
	if strings.HasPrefix(word, "/") {
		s.path = word
		return nil
	}
	if s.verb == "events" {
		s.with = word
		return nil
	}
	parts := strings.SplitN(word, "/", 3)
	r, ok := resources[parts[0]]
	if !ok {
		return fmt.Errorf("unknown resource %q", parts[0])
	}
	s.resource = r
	if len(parts) > 1 {
		s.name = parts[1]
	}
	if len(parts) > 2 {
		s.sub = parts[2]
	}
	return nil
}

// arrow parses the expected answer to the last request.
func (p *parser) arrow(f *Fact, text string, differs bool) error {
	if len(f.steps) == 0 {
		return errors.New("arrow without a request")
	}
	s := &f.steps[len(f.steps)-1]
	e := expectation{line: p.at}
	head, message, _ := strings.Cut(text, ": ")
	e.message = message
	words := strings.Fields(head)
	if len(words) == 0 || len(words) > 2 {
		return fmt.Errorf("invalid answer %q: want a code and at most a reason", head)
	}
	var err error
	if e.code, err = strconv.Atoi(words[0]); err != nil {
		return fmt.Errorf("invalid code %q: want a number", words[0])
	}
	if len(words) == 2 {
		e.reason = words[1]
	}
	p.take = func(block []string) error {
		body, err := decode(block)
		if m, ok := body.(map[string]any); ok && (m["$headers"] != nil || m["$text"] != nil) {
			f.http = true
		}
		if differs {
			s.differs.body = body
		} else {
			s.want.body = body
		}
		return err
	}
	switch {
	case differs && s.differs != nil, !differs && s.want.line > 0:
		return errors.New("duplicate arrow")
	case differs:
		s.differs = &e
	default:
		s.want = e
	}
	return nil
}

func addLet(lets map[string]any, name string, block []string) error {
	if lets[name] != nil {
		return fmt.Errorf("duplicate let %q", name)
	}
	v, err := decode(block)
	lets[name] = v
	return err
}

// decode decodes YAML.
func decode(block []string) (any, error) {
	data, err := yaml.YAMLToJSONStrict([]byte(strings.Join(block, "\n")))
	if err != nil {
		return nil, err
	}
	return decodeJSON(data)
}

// decodeJSON decodes JSON. Integers become int64.
func decodeJSON(data []byte) (any, error) {
	out := map[string]any{}
	if err := utiljson.Unmarshal(append(append([]byte(`{"V":`), data...), '}'), &out); err != nil {
		return nil, err
	}
	return out["V"], nil
}

// split splits a line into words. Double quotes keep words together.
func split(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	quoted, begun := false, false
	for _, r := range line {
		switch {
		case r == '"':
			quoted, begun = !quoted, true
		case r == ' ' && !quoted:
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	if quoted {
		return nil, errors.New("unterminated quote")
	}
	if begun {
		words = append(words, word.String())
	}
	return words, nil
}
