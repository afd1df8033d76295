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
	// seeding is held from setting rapid's seed until rapid has read it.
	seeding sync.Mutex
	// anySeed is set if the command line sets rapid's seed, possibly to 0 (random).
	anySeed bool
)

// Main runs the tests of a package. Call it from TestMain.
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

// Begin sets rapid's seed, so that the histories are the same in each run. The returned function
// must be called when the first is drawn.
func Begin(seed int) (begun func()) {
	if anySeed {
		return func() {}
	}
	seeding.Lock()
	if err := flag.Set(seedFlag, strconv.Itoa(seed)); err != nil {
		panic(err)
	}
	return sync.OnceFunc(seeding.Unlock)
}

// Check searches with rapid for a history in which the two differ, and shrinks it. Each history is
// compared once, so that a difference does not vanish when rapid repeats the history. Unless
// believed is true, a difference is compared again with Stubborn patience before it is reported.
// done is called for each comparison.
func (p Pair[S, W, C]) Check(tb rapid.TB, t *testing.T, seed int, draw *rapid.Generator[History[S]], spoil C, believed bool,
	done func(History[S], Verdict),
) {
	patience, known := Thorough, map[string]Verdict{}
	begun := Begin(seed)
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

// Run compares chunks times 100 histories. It fails if more than one in oneIn was not compared to its
// end.
func (p Pair[S, W, C]) Run(t *testing.T, chunks int, draw *rapid.Generator[History[S]], spoil C, oneIn int) {
	t.Helper()
	RunChunks(t, chunks, oneIn, func(t *testing.T, seed int, done func(steps int, v Verdict)) {
		p.Check(t, t, seed, draw, spoil, false, func(h History[S], v Verdict) { done(len(h), v) })
	})
}

// RunChunks calls check, which compares 100 histories drawn from a seed, once for each chunk. It
// fails if more than one in oneIn histories was not compared to its end. check calls done for each
// comparison.
func RunChunks(
	t *testing.T, chunks, oneIn int, check func(t *testing.T, seed int, done func(steps int, v Verdict)),
) {
	t.Helper()
	count := &tally{undecided: map[string]int{}}
	t.Run("chunk", func(t *testing.T) {
		for i := range chunks {
			t.Run(fmt.Sprint(i+1), func(t *testing.T) {
				t.Parallel()
				check(t, i+1, count.add)
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

// OneOf draws one of its arguments. It shrinks to the first; repeated arguments are drawn more
// often.
func OneOf[T any](of ...T) *rapid.Generator[T] { return rapid.SampledFrom(of) }

// OneIn returns true with probability 1/n.
func OneIn(t *rapid.T, n int, label string) bool {
	return rapid.IntRange(0, n-1).Draw(t, label) == n-1
}
