package addiff

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) {
	flag.Parse()
	flag.Visit(func(f *flag.Flag) { anySeed = anySeed || f.Name == seedFlag })
	klog.SetLogger(logr.Discard())                               // upstream's has much to say about what is done to it here
	utilruntime.ErrorHandlers = nil                              // one of them sleeps until some time of another bubble
	if err := flag.Set("rapid.nofailfile", "true"); err != nil { // a seed is enough
		panic(err)
	}
	os.Exit(m.Run())
}

// chunks times rapid's 100 is the number of histories.
const chunks = 20

// tally counts what comparisons came to.
type tally struct {
	histories, steps, tied, lives atomic.Int64

	mu        sync.Mutex
	undecided map[string]int // guarded by mu: histories not compared to their end, by why
}

func (c *tally) add(h history, v verdict) {
	if v.diff != "" {
		return
	}
	c.histories.Add(1)
	c.steps.Add(int64(len(h)))
	c.lives.Add(int64(v.lives))
	if v.lives > 1 {
		c.tied.Add(1)
	}
	if v.undecided != "" {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.undecided[v.undecided]++
	}
}

// check has rapid look for a history in which the controllers differ, and make it small. The same history is compared once:
// what rapid found must not be gone when it looks again. done is told of each comparison.
func check(tb rapid.TB, t *testing.T, seed int, spoil spoil, done func(history, verdict)) {
	p, known := thorough, map[string]verdict{}
	begun := begin(seed)
	rapid.Check(tb, func(rt *rapid.T) {
		begun()
		h := histories.Draw(rt, "history")
		v, ok := known[h.String()]
		if !ok {
			v = compare(t, h, p, spoil)
			if v.diff != "" && p == thorough && spoil.isNone() {
				v = compare(t, h, stubborn, spoil)
			}
			known[h.String()] = v
		}
		if v.diff != "" {
			p = hasty
			done(h, v)
			rt.Log("\n" + v.diff)
			rt.Fatal("upstream's controller and ours differ")
		}
		done(h, v)
	})
}

const seedFlag = "rapid.seed"

// seeding is held from when rapid's seed is set until it has taken it up.
var seeding sync.Mutex

// anySeed is set where the command line says which seed is rapid's, or that it may be any (0).
var anySeed bool

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

func TestHistories(t *testing.T) {
	count := &tally{undecided: map[string]int{}}
	t.Run("chunk", func(t *testing.T) {
		for i := range chunks {
			t.Run(fmt.Sprint(i+1), func(t *testing.T) {
				t.Parallel()
				check(t, t, i+1, spoil{}, count.add)
			})
		}
	})
	t.Logf("%d histories of %d steps; %d in which upstream did not at once do the same; it lived %d times in all; not compared to their end: %v",
		count.histories.Load(), count.steps.Load(), count.tied.Load(), count.lives.Load(), count.undecided)
	undecided := 0
	for _, n := range count.undecided {
		undecided += n
	}
	if all := int(count.histories.Load()); undecided*20 > all {
		t.Errorf("%d of %d histories were not compared to their end, more than one in 20", undecided, all)
	}
}
