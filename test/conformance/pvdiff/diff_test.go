package pvdiff

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/volsim/volsim/test/conformance/histories"
)

func TestMain(m *testing.M) { histories.Main(m) }

// chunks times 100 is the number of histories.
const chunks = 20

// check searches with rapid for a history in which the controllers differ, and shrinks it. Each
// history is compared once, so that a difference does not vanish when rapid repeats the history.
// done is called for each comparison.
func check(tb rapid.TB, t *testing.T, seed int, spoil spoil, done func(history, verdict)) {
	p, known := thorough, map[string]verdict{}
	begun := histories.Begin(seed)
	rapid.Check(tb, func(rt *rapid.T) {
		begun()
		h := drawHistory.Draw(rt, "history")
		v, ok := known[h.String()]
		if !ok {
			v = compare(t, h, p, spoil)
			if v.Diff != "" && p == thorough && spoil == nil {
				v = compare(t, h, stubborn, spoil)
			}
			known[h.String()] = v
		}
		if v.Diff != "" {
			p = hasty
			done(h, v)
			rt.Log("\n" + v.Diff)
			rt.Fatal("upstream's controller and ours differ")
		}
		done(h, v)
	})
}

// TestHistories compares drawn histories.
func TestHistories(t *testing.T) {
	histories.RunChunks(t, chunks, 20, func(t *testing.T, seed int, done func(int, verdict)) {
		check(t, t, seed, nil, func(h history, v verdict) { done(len(h), v) })
	})
}
