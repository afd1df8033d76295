package cluster

import (
	"slices"
	"strings"
	"testing"

	"github.com/volsim/volsim/sim"
)

// last schedules deliveries last, which come first in the default order: caches lag.
type last struct{}

func (last) Choose(n int) int { return n - 1 }

// TestEventsOfAVerb checks that the possible events of one verb are those of all verbs without the
// others, in the same order.
func TestEventsOfAVerb(t *testing.T) {
	w, err := New(Config{Stepped: &sim.SteppedConfig{Chooser: last{}}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	names := func(verb string) (all []string) {
		for _, h := range w.possibleEvents(verb) {
			all = append(all, h.Name)
		}
		return all
	}
	host, seen := w.Host().(*sim.Stepped), map[string]bool{}
	look := func() {
		for _, verb := range EventKinds {
			others := func(name string) bool { return !strings.HasPrefix(name, verb+" ") }
			want, got := slices.DeleteFunc(names(""), others), names(verb)
			if !slices.Equal(want, got) {
				t.Fatalf("step %d: %s: got %q, want %q", host.Steps(), verb, got, want)
			}
			seen[verb] = seen[verb] || len(got) > 0
		}
	}
	for _, event := range []string{"stop attacher", "replicate provisioner", "partition node-2"} {
		for range 40 {
			look()
			host.Step()
		}
		if !host.Inject(event) {
			t.Fatalf("%s: not a possible event: %q", event, names(""))
		}
		look()
	}
	for _, verb := range EventKinds {
		if !seen[verb] {
			t.Errorf("%s was never possible", verb)
		}
	}
}
