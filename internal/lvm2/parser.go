package lvm2

import (
	"errors"
	"strconv"
	"strings"
)

// errNotSimple means that this package cannot parse the metadata; LVM reads it then.
var errNotSimple = errors.New("metadata that only LVM can read")

// section is a section of LVM's textual metadata: fields with one value or a list, and named
// sections.
type section struct {
	name     string
	fields   []field
	sections []section
}

type field struct {
	name   string
	values []string
}

// textParser parses metadata. Its results are substrings of the text.
type textParser struct {
	text string
	at   int
}

// parseText returns the sections and fields of a text.
func parseText(text string) (section, error) {
	r := textParser{text: text}
	root := section{}
	err := r.read(&root, false)
	return root, err
}

// read parses the content of a section, up to its end.
func (r *textParser) read(into *section, closes bool) error {
	for {
		r.skipSpace()
		if r.at == len(r.text) {
			if closes {
				return errNotSimple
			}
			return nil
		}
		if r.text[r.at] == '}' && closes {
			r.at++
			return nil
		}
		name := r.word()
		r.skipSpace()
		if name == "" || r.at == len(r.text) {
			return errNotSimple
		}
		switch r.text[r.at] {
		case '{':
			r.at++
			inner := section{name: name}
			if err := r.read(&inner, true); err != nil {
				return err
			}
			into.sections = append(into.sections, inner)
		case '=':
			r.at++
			values, err := r.values()
			if err != nil {
				return err
			}
			into.fields = append(into.fields, field{name, values})
		default:
			return errNotSimple
		}
	}
}

// skipSpace skips spaces and comments.
func (r *textParser) skipSpace() {
	for r.at < len(r.text) {
		switch r.text[r.at] {
		case ' ', '\t', '\n', 0:
			r.at++
		case '#':
			line := strings.IndexByte(r.text[r.at:], '\n')
			if line < 0 {
				r.at = len(r.text)
				return
			}
			r.at += line
		default:
			return
		}
	}
}

// word reads a name or a number.
func (r *textParser) word() string {
	begin := r.at
	for r.at < len(r.text) && strings.IndexByte(" \t\n={}[],#\"\x00", r.text[r.at]) < 0 {
		r.at++
	}
	return r.text[begin:r.at]
}

// values reads what follows a "=".
func (r *textParser) values() ([]string, error) {
	r.skipSpace()
	if r.at == len(r.text) || r.text[r.at] != '[' {
		value, err := r.value()
		return []string{value}, err
	}
	r.at++
	var all []string
	for {
		r.skipSpace()
		switch {
		case r.at == len(r.text):
			return nil, errNotSimple
		case r.text[r.at] == ']':
			r.at++
			return all, nil
		case r.text[r.at] == ',':
			r.at++
			continue
		}
		value, err := r.value()
		if err != nil {
			return nil, err
		}
		all = append(all, value)
	}
}

// value reads a quoted text or a number.
func (r *textParser) value() (string, error) {
	if r.at < len(r.text) && r.text[r.at] == '"' {
		return r.quoted()
	}
	word := r.word()
	if word == "" {
		return "", errNotSimple
	}
	return word, nil
}

// unescaped undoes LVM's escaping in quoted text.
var unescaped = strings.NewReplacer(`\\`, `\`, `\"`, `"`)

func (r *textParser) quoted() (string, error) {
	r.at++
	rest := r.text[r.at:]
	for end := 0; end < len(rest); end++ {
		switch rest[end] {
		case '\\':
			end++
		case '"':
			r.at += end + 1
			if strings.IndexByte(rest[:end], '\\') < 0 {
				return rest[:end], nil
			}
			return unescaped.Replace(rest[:end]), nil
		}
	}
	return "", errNotSimple
}

// section returns the section of a name, or an empty one.
func (s *section) section(name string) section {
	for _, each := range s.sections {
		if each.name == name {
			return each
		}
	}
	return section{name: name}
}

// list returns the values of a field.
func (s *section) list(name string) []string {
	for _, each := range s.fields {
		if each.name == name {
			return each.values
		}
	}
	return nil
}

// text returns the value of a field with one value.
func (s *section) text(name string) string {
	if values := s.list(name); len(values) == 1 {
		return values[0]
	}
	return ""
}

// number parses a field as a number. It keeps the first error.
func (s *section) number(name string, failed *error) int64 {
	number, err := strconv.ParseInt(s.text(name), 10, 64)
	if err != nil && *failed == nil {
		*failed = errNotSimple
	}
	return number
}
