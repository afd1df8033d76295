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

// Fact is one property of an API server's behaviour.
type Fact struct {
	Topic string // the file, such as claims
	Name  string // the property, in a sentence

	file      string
	line      int
	http      bool // needs the wire format
	exclusive bool // needs the server for itself
	steps     []step
	lets      map[string]any // of the file
}

// String returns the topic and the name.
func (f Fact) String() string { return f.Topic + ": " + f.Name }

// Exclusive reports whether the fact holds only while no other client changes the server's objects.
func (f Fact) Exclusive() bool { return f.exclusive }

// NeedsCustomResources reports whether the fact uses the custom resources that Install installs.
func (f Fact) NeedsCustomResources() bool {
	for _, s := range f.steps {
		if s.resource.Group == customGroup || s.resource.Group == otherGroup || strings.Contains(s.path, customGroup) {
			return true
		}
	}
	return false
}

// SkipReason returns why a client cannot check the fact, or "".
func (f Fact) SkipReason(t Traits) string {
	if f.http && !t.HTTP {
		return "needs HTTP"
	}
	return ""
}

// All returns the facts of the book, in order. An error is a mistake in the book.
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
				return nil, fmt.Errorf("%s:%d: duplicate fact %q", f.file, f.line, f)
			}
			names[f.String()] = true
		}
		all = append(all, facts...)
	}
	return all, nil
}

// topicOf returns the topic of a file.
func topicOf(file string) string { return strings.TrimSuffix(file, ".txt") }
