package histories

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"
)

const seedFlag = "rapid.seed"

var (
	// seeding is held from setting rapid's seed until rapid has read it.
	seeding sync.Mutex
	// anySeed is set if the command line sets rapid's seed, possibly to 0 (random).
	anySeed bool
)

// Main runs the tests of a package. Call it from TestMain.
func Main(m *testing.M) {
	// rapid stops shrinking after 30 s of real time by default. The result must not depend on the load
	// of the machine.
	if err := flag.Set("rapid.shrinktime", "1h"); err != nil {
		panic(err)
	}
	flag.Parse()
	flag.Visit(func(f *flag.Flag) { anySeed = anySeed || f.Name == seedFlag })
	klog.SetLogger(logr.Discard())                               // upstream logs each injected fault
	utilruntime.ErrorHandlers = nil                              // one of them sleeps until a time of another bubble
	if err := flag.Set("rapid.nofailfile", "true"); err != nil { // a seed is enough
		panic(err)
	}
	os.Exit(m.Run())
}

// begin sets rapid's seed, so that the histories are the same in each run. The returned function
// must be called when the first is drawn.
func begin(seed int) (begun func()) {
	if anySeed {
		return func() {}
	}
	seeding.Lock()
	if err := flag.Set(seedFlag, strconv.Itoa(seed)); err != nil {
		panic(err)
	}
	return sync.OnceFunc(seeding.Unlock)
}

// check searches with rapid for a history in which the two differ, and shrinks it. Each history is
// compared once, so that a difference does not vanish when rapid repeats the history. A difference of
// a mutant must be one that ours without the mutation does not have; any other is
// confirmed before it is reported. done is called for each comparison.
func (p Pair[S, W, M]) check(tb rapid.TB, t *testing.T, seed int, draw *rapid.Generator[History[S]], mutation M, mutant bool,
	done func(History[S], Verdict),
) {
	limits := p.limits()
	patience, known := limits.First, map[string]Verdict{}
	begun := begin(seed)
	rapid.Check(tb, func(rt *rapid.T) {
		begun()
		h := draw.Draw(rt, "history")
		v, ok := known[h.String()]
		if !ok {
			v = p.compare(t, h, patience, mutation)
			if v.Diff != "" && patience == limits.First && !mutant {
				v = p.compare(t, h, limits.Confirm, mutation)
			}
			if v.Diff != "" && mutant && !p.shows(h, v, mutation) {
				v = Verdict{Attempts: v.Attempts, Undecided: "ours does the same without the mutation"}
			}
			known[h.String()] = v
		}
		done(h, v)
		if v.Diff != "" {
			patience = limits.Shrink
			if mutant {
				patience = limits.ShrinkMutant
			}
			rt.Log("\n" + v.Diff)
			rt.Fatal("upstream's and ours differ")
		}
	})
}

// shows reports whether the difference of a verdict is one of the mutation: ours without it has another
// state there, or does not do what it must never do. Otherwise the difference is a tie that
// the executions of upstream did not reach.
func (p Pair[S, W, M]) shows(h History[S], v Verdict, mutation M) bool {
	var none M
	mutated, unchanged := p.Ours(h[:v.Steps], nil, mutation), p.Ours(h[:v.Steps], nil, none)
	if p.Violation != nil && p.Violation(mutated.World) != "" && p.Violation(unchanged.World) == "" {
		return true
	}
	last := len(mutated.States) - 1
	return last >= len(unchanged.States) || !slices.Equal(mutated.States[last], unchanged.States[last])
}

// Run compares chunks times 100 drawn histories. It fails if more than one in oneIn was not
// compared to its end.
func (p Pair[S, W, M]) Run(t *testing.T, chunks int, draw *rapid.Generator[History[S]], oneIn int) {
	t.Helper()
	count := &tally{undecided: map[string]int{}}
	t.Run("chunk", func(t *testing.T) {
		for i := range chunks {
			t.Run(fmt.Sprint(i+1), func(t *testing.T) {
				t.Parallel()
				var none M
				p.check(t, t, i+1, draw, none, false, func(h History[S], v Verdict) { count.add(len(h), v) })
			})
		}
	})
	t.Logf("%d histories of %d steps; %d needed several executions of upstream; %d executions of upstream in all; not compared to their end: %v",
		count.histories, count.steps, count.tied, count.attempts, count.undecided)
	undecided := 0
	for _, n := range count.undecided {
		undecided += n
	}
	if undecided*oneIn > count.histories {
		t.Errorf("%d of %d histories were not compared to their end, more than one in %d", undecided, count.histories, oneIn)
	}
}

// A tally counts the results of comparisons.
type tally struct {
	mu                               sync.Mutex
	histories, steps, tied, attempts int            // guarded by mu, until all comparisons have ended
	undecided                        map[string]int // guarded by mu, until then: histories not compared to their end, by why
}

func (c *tally) add(steps int, v Verdict) {
	if v.Diff != "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.histories++
	c.steps += steps
	c.attempts += v.Attempts
	if v.Attempts > 1 {
		c.tied++
	}
	if v.Undecided != "" {
		c.undecided[v.Undecided]++
	}
}
