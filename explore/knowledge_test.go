package explore

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// TestEqualNumbersContinueEqually runs worlds in random orders until two of them lead to states with
// the same number. Both are then continued in the same order, by name, and must do the same.
func TestEqualNumbersContinueEqually(t *testing.T) {
	testcheck.Stepped(t)
	for _, tt := range []struct {
		name  string
		pairs int
	}{
		{"two-claims-two-volumes", 60},
		{"claim-recreated", 60},
		{"claim-deleted-while-pod-starts", 60},
		{"volume-given-back", 60},
		{"provisioned-while-it-goes", 60},
		{"one-pod-life", 10},
		{"two-volumes-one-claim", 30},
		{"claim-names-its-volume", 30},
		{"volume-deleted-before-claim", 30},
		{"directory-provisioned", 60},
		{"directory-claim-recreated", 60},
		{"directory-deleted-before-claim", 30},
		{"directory-taken-back", 30},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, err := scenario.Find(tt.name)
			if err != nil {
				t.Fatal(err)
			}
			e, err := newSearch(t.Context(), s, Config{NoFaults: true})
			if err != nil {
				t.Fatal(err)
			}
			defer e.pool.Close()
			first := map[uint64][]string{} // by number: the tasks that ran
			compared := 0
			for seed := uint64(0); compared < tt.pairs && seed < 400; seed++ {
				w := &numberedWalk{random: rand.New(rand.NewPCG(seed, 1))}
				if _, err := e.runWithSetup(w, w.begin); err != nil {
					t.Fatal(err)
				}
				for i, number := range w.numbers {
					order := w.ran[:i]
					other, found := first[number]
					if !found {
						first[number] = slices.Clone(order)
						continue
					}
					if compared >= tt.pairs || len(order) == 0 || slices.Equal(order, other) || w.random.IntN(4) > 0 {
						continue
					}
					compared++
					a, b := e.continueByName(t, other), e.continueByName(t, order)
					for i := range max(len(a), len(b)) {
						if i >= len(a) || i >= len(b) || a[i] != b[i] {
							t.Fatalf("after %s\n%s\nafter %s\n%s", strings.Join(other, ", "), strings.Join(a[i:], "\n"),
								strings.Join(order, ", "), strings.Join(b[i:], "\n"))
						}
					}
				}
			}
			t.Logf("%d pairs, %d states", compared, len(first))
			if compared < tt.pairs/10 {
				t.Errorf("%d pairs, want some", compared)
			}
		})
	}
}

// A numberedWalk draws the order of events, and numbers each state.
type numberedWalk struct {
	random  *rand.Rand
	know    *knowledge
	numbers []uint64
	ran     []string
}

func (w *numberedWalk) begin(c *cluster.Cluster) { w.know = newKnowledge(c) }

// Access says that the running step reads a cache.
func (w *numberedWalk) Access(a sim.Access) { w.know.Access(a) }

// Decide draws a task.
func (w *numberedWalk) Decide(d *sim.Decision) sim.Move {
	w.numbers = append(w.numbers, w.know.number())
	d.Task(d.Len() - 1) // in order
	choice := w.random.IntN(d.Len())
	w.ran = append(w.ran, d.Task(choice).Name())
	w.know.begin(d.Step(), d.Task(choice))
	return sim.Move{Option: choice}
}

// A byName runs the given tasks, and then always the first one by name.
type byName struct {
	order []string
	step  int // of the last given task
}

// Decide returns the next task.
func (b *byName) Decide(d *sim.Decision) sim.Move {
	d.Task(d.Len() - 1) // in order
	best := 0
	for i := range d.Len() {
		name := d.Task(i).Name()
		if len(b.order) > 0 && name == b.order[0] {
			b.order = b.order[1:]
			b.step = d.Step()
			return sim.Move{Option: i}
		}
		if name < d.Task(best).Name() {
			best = i
		}
	}
	return sim.Move{Option: best}
}

// generatedName is a name that is made of a UID, or the UID in the name of a task.
var generatedName = regexp.MustCompile(`(pvc|vol|csi)-[0-9a-f-]{16,}|\[[0-9a-f-]{36}\]`)

// continueByName returns what happens after an order of tasks.
func (e *search) continueByName(t *testing.T, order []string) []string {
	t.Helper()
	b := &byName{order: order}
	r, err := e.runUncounted(b)
	if err != nil || len(b.order) > 0 {
		t.Fatal("order not possible:", b.order, err)
	}
	var lines []string
	for _, one := range r.Trace.Records() {
		if one.Step > r.SetupEnd && one.HostStep > b.step && (one.Kind == trace.KindAPI || one.Kind == trace.KindDriver || one.Kind == trace.KindDeliver) &&
			!strings.HasPrefix(one.Object, resourceEvents+"/") {
			lines = append(lines, fmt.Sprint(one.Task, " ", one.Action, " ", one.Err != nil))
		}
	}
	lines = append(lines, fmt.Sprint(r.Outcome, r.Failure))
	named := map[string]string{} // names made of UIDs, which number all objects of the world
	for i, line := range lines {
		lines[i] = generatedName.ReplaceAllStringFunc(line, func(name string) string {
			if named[name] == "" {
				named[name] = fmt.Sprint("generated-", len(named)+1)
			}
			return named[name]
		})
	}
	return lines
}
