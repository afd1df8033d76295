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
	Topic string // what it is about
	Name  string // the fact itself, in a sentence

	file      string
	line      int
	http      bool // is about the wire
	exclusive bool // needs the server for itself
	steps     []step
	lets      map[string]any // of the file
}

// String names the fact.
func (f Fact) String() string { return f.Topic + ": " + f.Name }

// Exclusive tells whether the fact holds only while nobody else changes what is in the server.
func (f Fact) Exclusive() bool { return f.exclusive }

// NeedsCustomResources tells whether the fact takes the custom resources that Install installs.
func (f Fact) NeedsCustomResources() bool {
	for _, s := range f.steps {
		if s.resource.Group == customGroup || s.resource.Group == otherGroup || strings.Contains(s.path, customGroup) {
			return true
		}
	}
	return false
}

// SkipReason says why the fact cannot be put to a server by a way. It is "" if it can.
func (f Fact) SkipReason(t Traits) string {
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

// topicOf is what the facts of a file are about.
func topicOf(file string) string { return strings.TrimSuffix(file, ".txt") }
