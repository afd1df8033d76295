package watchdir_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/volsim/volsim/internal/watchdir"
	"github.com/volsim/volsim/sim"
)

// fixture is a queue whose directory is a set of names.
type fixture struct {
	*testing.T
	host   *sim.Stepped
	queue  *watchdir.Queue[bool]
	names  []string       // that exist
	fails  map[string]int // by name: how many runs fail
	final  bool           // failures are final
	runs   []string
	onSync func(name string)
}

var errScripted = errors.New("scripted")

func newFixture(t *testing.T) *fixture {
	f := &fixture{T: t, host: sim.NewStepped(sim.SteppedConfig{StepsMax: 10_000}), fails: map[string]int{}}
	t.Cleanup(f.host.Close)
	f.queue = watchdir.NewQueue(watchdir.Config[bool]{
		Process: f.host.Process("process"), Name: "entries", RetryName: "retries", Verb: "sync",
		Scan: func() { f.queue.SyncAll(f.names) },
		Sync: func(_ context.Context, name string, exists *bool) error {
			f.runs = append(f.runs, name)
			if f.onSync != nil {
				f.onSync(name)
			}
			if f.fails[name] > 0 {
				f.fails[name]--
				return errScripted
			}
			*exists = slices.Contains(f.names, name)
			return nil
		},
		Final: func(*bool) bool { return f.final },
		Keep:  func(exists *bool) bool { return *exists },
	})
	return f
}

// run notifies of names, runs the host until it is at rest, and compares the runs since the last
// call.
func (f *fixture) run(what string, names []string, want ...string) {
	f.Helper()
	for _, name := range names {
		f.queue.Notify(name)
	}
	if err := f.host.Run(); err != nil {
		f.Fatal(err)
	}
	if !slices.Equal(f.runs, want) {
		f.Errorf("%s: got runs %q, want %q", what, f.runs, want)
	}
	f.runs = nil
}

func (f *fixture) kept() []string {
	var names []string
	for name := range f.queue.All() {
		names = append(names, name)
	}
	return names
}

func TestScanCoversListedAndKeptEntries(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.names = []string{"b", "a"}
	f.run("first scan", []string{""}, "a", "b")
	if got := f.kept(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("got kept entries %q, want a and b", got)
	}
	f.names = []string{"c"}
	f.run("second scan", []string{"", ""}, "a", "b", "c")
	if got := f.kept(); !slices.Equal(got, []string{"c"}) {
		t.Errorf("got kept entries %q, want c", got)
	}
}

func TestEntryThatChangesDuringItsRunRunsAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.onSync = func(name string) {
		f.onSync = nil
		f.queue.Sync(name)
		f.queue.Sync(name)
	}
	f.run("changed twice", []string{"a"}, "a", "a")
}

func TestFailedRunIsRetriedWithBackoff(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.fails["a"] = 3
	f.run("three failures", []string{"a"}, "a", "a", "a", "a")
	if got, want := f.host.Now().Sub(sim.Epoch), 3500*time.Millisecond; got != want {
		t.Errorf("got %v until success, want %v", got, want)
	}
}

func TestFinalFailureIsNotRetried(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.final, f.fails["a"] = true, 1
	f.run("final failure", []string{"a"}, "a")
}

func TestFailedScanIsRetried(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.names = []string{"a"}
	f.queue.RetryScan()
	f.queue.RetryScan()
	f.run("retried scan", nil, "a")
}

func TestMoreThanPendingMaxNotificationsScan(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.names = []string{"a"}
	var names []string
	for i := range 1001 {
		names = append(names, fmt.Sprintf("name-%d", i))
	}
	f.run("overflow", names, "a")
}
