package scenario

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// A fieldPath is the path of a field of an object: "spec.ports[0].name". A backslash before a dot
// makes it part of a name: "metadata.annotations.example\.com/owner".
type fieldPath struct {
	text  string
	steps []any // string: a field; int: an element of a list
}

var errFieldPath = errors.New(`want a path of fields, such as spec.size or status.items[0].name (\. for a dot in a name)`)

// parseFieldPath parses a path.
func parseFieldPath(text string) (fieldPath, error) {
	p := fieldPath{text: text}
	invalid := fmt.Errorf("path %q: %w", text, errFieldPath)
	var name strings.Builder
	rest := text
	for rest != "" {
		c := rest[0]
		rest = rest[1:]
		switch {
		case c == '\\' && rest != "":
			name.WriteByte(rest[0])
			rest = rest[1:]
		case c == '.':
			if name.Len() == 0 && !strings.HasSuffix(text[:len(text)-len(rest)-1], "]") || rest == "" {
				return p, invalid
			}
			p.addName(&name)
		case c == '[':
			index, after, closed := strings.Cut(rest, "]")
			n, err := strconv.Atoi(index)
			if err != nil || n < 0 || !closed || name.Len() == 0 && len(p.steps) == 0 || after != "" && after[0] != '.' && after[0] != '[' {
				return p, invalid
			}
			p.addName(&name)
			p.steps = append(p.steps, n)
			rest = after
		case c == ']' || c == '\\' || c <= ' ':
			return p, invalid
		default:
			name.WriteByte(c)
		}
	}
	p.addName(&name)
	if _, named := slices.Concat(p.steps, []any{0})[0].(string); !named {
		return p, invalid
	}
	return p, nil
}

// addName adds the name of a field, if there is one.
func (p *fieldPath) addName(name *strings.Builder) {
	if name.Len() > 0 {
		p.steps = append(p.steps, name.String())
		name.Reset()
	}
}

// value returns the value of the field in an object, and whether it has one.
func (p fieldPath) value(object map[string]any) (value any, exists bool) {
	value = object
	for _, step := range p.steps {
		switch step := step.(type) {
		case string:
			fields, is := value.(map[string]any)
			if value, exists = fields[step]; !is || !exists {
				return nil, false
			}
		case int:
			elements, is := value.([]any)
			if !is || step >= len(elements) {
				return nil, false
			}
			value = elements[step]
		}
	}
	return value, value != nil
}

// set sets the field in a merge patch.
func (p fieldPath) set(patch map[string]any, value any) error {
	fields := patch
	for i, step := range p.steps {
		name, named := step.(string)
		if !named {
			return fmt.Errorf("path %q: a patch replaces a list as a whole: want %s=[…]", p.text, p.text[:strings.Index(p.text, "[")])
		}
		if i == len(p.steps)-1 {
			fields[name] = value
			return nil
		}
		inner, is := fields[name].(map[string]any)
		if fields[name] == nil {
			inner, is = map[string]any{}, true
			fields[name] = inner
		}
		if !is {
			return fmt.Errorf("path %q: %s has a value of its own", p.text, name)
		}
		fields = inner
	}
	return nil
}

// jsonStarts are the first characters of JSON values that may contain blanks.
const jsonStarts = `{["`

// assignments splits "PATH=VALUE …" into words. A value is one word, or JSON, in which blanks are
// allowed: a list, an object or a quoted string. JSON is compacted. Words without "=" are kept.
func assignments(text string) ([]string, error) {
	var words []string
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		end := strings.IndexFunc(text, func(c rune) bool { return c == '=' || unicode.IsSpace(c) })
		if end < 0 || text[end] != '=' {
			word := text
			if end >= 0 {
				word = text[:end]
			}
			words, text = append(words, word), text[len(word):]
			continue
		}
		key, value := text[:end+1], text[end+1:]
		if value != "" && strings.ContainsRune(jsonStarts, rune(value[0])) {
			compact, rest, err := cutJSON(value)
			if err != nil {
				return nil, fmt.Errorf("%s%s: %w", key, value, err)
			}
			words, text = append(words, key+compact), rest
			continue
		}
		if end = strings.IndexFunc(value, unicode.IsSpace); end < 0 {
			end = len(value)
		}
		words, text = append(words, key+value[:end]), value[end:]
	}
	return words, nil
}

// cutJSON splits off the JSON value at the beginning of a text.
func cutJSON(text string) (value, rest string, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var parsed any
	if err := d.Decode(&parsed); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("the JSON value has no end")
		}
		return "", "", err
	}
	value = compactJSON(parsed)
	rest = text[d.InputOffset():]
	if first := strings.TrimLeftFunc(rest, unicode.IsSpace); first == rest && rest != "" {
		return "", "", fmt.Errorf("unexpected %q after the JSON value", rest)
	}
	return value, rest, nil
}

// compactJSON returns a decoded value as JSON in one line.
func compactJSON(value any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return fmt.Sprint(value) // decoded values can be encoded
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// literal returns the value that a word stands for: JSON, else the word itself.
func literal(word string) any {
	d := json.NewDecoder(strings.NewReader(word))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil || d.InputOffset() != int64(len(word)) {
		return word
	}
	return value
}

// plain returns a value of an object as a word that acts compare.
func plain(value any) string {
	if text, is := value.(string); is {
		return text
	}
	return compactJSON(value)
}
