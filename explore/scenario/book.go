package scenario

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

//go:embed book/*.txt
var book embed.FS

// errNoScenario is matched by the error for an unknown built-in scenario.
var errNoScenario = errors.New("no such scenario")

// Book returns the built-in scenarios, sorted by name. The caller may change them.
func Book() []*Scenario {
	files, err := book.ReadDir("book")
	if err != nil {
		panic("scenario: " + err.Error()) // embedded in the program
	}
	all := make([]*Scenario, len(files))
	for i, f := range files {
		text, err := book.ReadFile(path.Join("book", f.Name()))
		if err != nil {
			panic("scenario: " + err.Error())
		}
		if all[i], err = Parse(strings.TrimSuffix(f.Name(), ".txt"), string(text)); err != nil {
			panic(err.Error())
		}
	}
	slices.SortFunc(all,
		func(a, b *Scenario) int { return cmp.Compare(a.Name, b.Name) }) // the directory is sorted with ".txt"
	return all
}

// Find returns the built-in scenario of a name. The error matches ErrNoScenario.
func Find(name string) (*Scenario, error) {
	all := Book()
	i := slices.IndexFunc(all, func(s *Scenario) bool { return s.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("scenario %q: %w in the book", name, errNoScenario)
	}
	return all[i], nil
}
