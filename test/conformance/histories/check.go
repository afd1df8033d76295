package histories

import (
	"flag"
	"fmt"
	"os"
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
	// seeding is held from when rapid's seed is set until it has taken it up.
	seeding sync.Mutex
	// anySeed is set where the command line says which seed is rapid's, or that it may be any (0).
	anySeed bool
)

// Main is for TestMain.
func Main(m *testing.M) {
	flag.Parse()
	flag.Visit(func(f *flag.Flag) { anySeed = anySeed || f.Name == seedFlag })
	klog.SetLogger(logr.Discard())                               // upstream's has much to say about what is done to it here
	utilruntime.ErrorHandlers = nil                              // one of them sleeps until some time of another bubble
	if err := flag.Set("rapid.nofailfile", "true"); err != nil { // a seed is enough
		panic(err)
	}
	os.Exit(m.Run())
}

// begin sets rapid's seed, so that the histories are the same each time. The result is to be called when the first is drawn.
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

// Check has rapid look for a history in which the two differ, and make it small. The same history is compared once: what rapid
// found must not be gone when it looks again. A difference is looked at stubbornly before it is believed, where believed is true.
// done is told of each comparison.
func (p Pair[S, W, C]) Check(tb rapid.TB, t *testing.T, seed int, draw *rapid.Generator[History[S]], spoil C, believed bool,
	done func(History[S], Verdict),
) {
	patience, known := Thorough, map[string]Verdict{}
	begun := begin(seed)
	rapid.Check(tb, func(rt *rapid.T) {
		begun()
		h := draw.Draw(rt, "history")
		v, ok := known[h.String()]
		if !ok {
			v = p.Compare(t, h, patience, spoil)
			if v.Diff != "" && patience == Thorough && !believed {
				v = p.Compare(t, h, Stubborn, spoil)
			}
			known[h.String()] = v
		}
		done(h, v)
		if v.Diff != "" {
			patience = Hasty
			if believed {
				patience = Hastier
			}
			rt.Log("\n" + v.Diff)
			rt.Fatal("upstream's and ours differ")
		}
	})
}

// Run compares chunks times rapid's 100 histories, and fails if more than one in so many was not compared to its end.
func (p Pair[S, W, C]) Run(t *testing.T, chunks int, draw *rapid.Generator[History[S]], spoil C, oneIn int) {
	t.Helper()
	count := &tally{undecided: map[string]int{}}
	t.Run("chunk", func(t *testing.T) {
		for i := range chunks {
			t.Run(fmt.Sprint(i+1), func(t *testing.T) {
				t.Parallel()
				p.Check(t, t, i+1, draw, spoil, false, func(h History[S], v Verdict) { count.add(len(h), v) })
			})
		}
	})
	t.Logf("%d histories of %d steps; %d in which upstream did not at once do the same; it lived %d times in all; not compared to their end: %v",
		count.histories, count.steps, count.tied, count.attempts, count.undecided)
	undecided := 0
	for _, n := range count.undecided {
		undecided += n
	}
	if undecided*oneIn > count.histories {
		t.Errorf("%d of %d histories were not compared to their end, more than one in %d", undecided, count.histories, oneIn)
	}
}

// tally counts what comparisons came to.
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

// OneOf draws one of what it is given. It takes what is first when it shrinks; what is there more than once is drawn more often.
func OneOf[T any](of ...T) *rapid.Generator[T] { return rapid.SampledFrom(of) }

// OneIn is true one time in n.
func OneIn(t *rapid.T, n int, label string) bool {
	return rapid.IntRange(0, n-1).Draw(t, label) == n-1
}
