package facts

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

//go:embed book/*.txt
var book embed.FS

// Fact is one thing that is true of an API server.
type Fact struct {
	Noun string // what it is about
	Name string // the fact itself, in a sentence

	file  string
	line  int
	http  bool // is about the wire
	alone bool // needs the server for itself
	steps []step
	lets  map[string]any // of the file
}

// String names the fact.
func (f Fact) String() string { return f.Noun + ": " + f.Name }

// Alone tells whether the fact holds only while nobody else changes what is in the server.
func (f Fact) Alone() bool { return f.alone }

// Custom tells whether the fact takes the custom resources that Install installs.
func (f Fact) Custom() bool {
	for _, s := range f.steps {
		if s.resource.Group == custom || s.resource.Group == otherCustom || strings.Contains(s.path, custom) {
			return true
		}
	}
	return false
}

// Skips says why the fact cannot be put to a server by a way. It is "" if it can.
func (f Fact) Skips(t Traits) string {
	if f.http && !t.HTTP {
		return "it is about HTTP"
	}
	return ""
}

// All returns the facts, in the order of the book.
func All() ([]Fact, error) {
	files, err := fs.Glob(book, "book/*.txt")
	if err != nil {
		return nil, err
	}
	var all []Fact
	names := map[string]bool{}
	for _, name := range files {
		text, err := book.ReadFile(name)
		if err != nil {
			return nil, err
		}
		facts, err := Parse(path.Base(name), string(text))
		if err != nil {
			return nil, err
		}
		for _, f := range facts {
			if names[f.String()] {
				return nil, fmt.Errorf("%s:%d: there is a fact %q already", f.file, f.line, f)
			}
			names[f.String()] = true
		}
		all = append(all, facts...)
	}
	return all, nil
}

// noun is what the facts of a file are about.
func noun(file string) string { return strings.TrimSuffix(file, ".txt") }
