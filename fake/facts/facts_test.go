package facts_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/facts"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/trace"
)

// direct is a Caller that does what it is told.
type direct struct{ sim.Caller }

func (direct) Call(_ trace.Action, effect func() trace.Outcome) trace.Outcome { return effect() }

// timeout ends a fact that waits for an event that does not come.
const timeout = 20 * time.Second

// spokenMin are the facts that a way must have words for, at least: so that none falls silent.
var spokenMin = map[string]int{"typed": 0, "untyped": 0}

func TestFacts(t *testing.T) {
	all, err := facts.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, way := range []struct {
		name string
		of   func(*fake.Clientset) facts.Way
	}{
		{"typed", func(c *fake.Clientset) facts.Way { return facts.Typed(c, false) }},
		{"untyped", facts.Untyped},
	} {
		t.Run(way.name, func(t *testing.T) {
			spoken := 0
			for _, f := range all {
				t.Run(f.String(), func(t *testing.T) {
					s := fake.NewServer(fake.Config{Now: time.Now})
					if check(t, way.of(s.Client(direct{})), f) {
						spoken++
					}
				})
			}
			if spoken < spokenMin[way.name] {
				t.Errorf("%d facts were put to the server, want %d at least", spoken, spokenMin[way.name])
			}
		})
	}
}

// check puts a fact to a server, and tells whether the way had words for it.
func check(t *testing.T, way facts.Way, f facts.Fact) bool {
	t.Helper()
	if why := f.Skips(way.Traits()); why != "" {
		t.Skip(why)
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	err := facts.Check(ctx, way, f)
	if errors.Is(err, facts.ErrUnspeakable) {
		t.Skip(err)
	}
	if err != nil {
		t.Error(err)
	}
	return true
}
