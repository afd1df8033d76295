package watchdir

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// The delay before a failed run is retried, which doubles with each failure.
//
// Upstream: pkg/util/goroutinemap/exponentialbackoff (v1.36).
const (
	retryMin = 500 * time.Millisecond
	retryMax = 2*time.Minute + 2*time.Second
)

// pendingMax bounds the pending names. If there are more, everything is scanned.
const pendingMax = 1000

// Config configures a Queue. S is what the caller keeps of each entry. The callbacks run in the
// process.
type Config[S any] struct {
	Process    *sim.Process
	Name       string // of the task that takes the notifications
	RetryName  string // of the retry queue
	Background bool   // of the retry queue; see sim.QueueConfig
	Verb       string // names the tasks of entries, and the records of their failures

	// Display returns an entry's name for task names and records; nil: the name itself.
	Display func(name string) string
	// Scan lists all entries and passes them to Queue.SyncAll.
	Scan func()
	// Sync brings the process in line with one entry. It may leave the process.
	Sync func(ctx context.Context, name string, state *S) error
	// Final reports whether the last run failed for good, so that it is not retried; nil: never.
	Final func(state *S) bool
	// Keep reports whether the state of an entry is needed after a successful run.
	Keep func(state *S) bool
}

// A Queue synchronizes the entries of a directory. Its methods are called in tasks of its process,
// except for Notify.
type Queue[S any] struct {
	cfg Config[S]

	mu      sync.Mutex
	pending []string // guarded by mu: names that may have changed, each once; "" is all

	// The fields below belong to the process.
	entries map[string]*entry[S] // by name
	retries *sim.Queue[string]
	waiting map[string]bool // names with a scheduled retry: one each, however often they fail meanwhile
}

// An entry is what is known of a name.
type entry[S any] struct {
	state    S
	running  bool
	dirty    bool // it may have changed since the run began
	failures int  // in a row
}

// NewQueue adds the queue's tasks to the process. It does nothing before the first Notify, Sync or
// SyncAll.
func NewQueue[S any](cfg Config[S]) *Queue[S] {
	if cfg.Display == nil {
		cfg.Display = func(name string) string { return name }
	}
	if cfg.Final == nil {
		cfg.Final = func(*S) bool { return false }
	}
	q := &Queue[S]{cfg: cfg, entries: map[string]*entry[S]{}, waiting: map[string]bool{}}
	cfg.Process.Delivery(cfg.Name, q.hasPending, q.takePending)
	q.retries = sim.NewQueue[string](cfg.Process, sim.QueueConfig{Name: cfg.RetryName, Background: cfg.Background})
	q.retries.Work(q.retry)
	return q
}

// Notify reports that an entry may have appeared, disappeared or changed; "" means all entries. It
// may be called from any goroutine, at any time, and does not block.
func (q *Queue[S]) Notify(name string) {
	q.mu.Lock()
	switch {
	case slices.Contains(q.pending, name):
	case len(q.pending) == pendingMax:
		q.pending = []string{""}
	default:
		q.pending = append(q.pending, name)
	}
	q.mu.Unlock()
	q.cfg.Process.Wake()
}

func (q *Queue[S]) hasPending() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.pending) > 0
}

// takePending handles one notification.
func (q *Queue[S]) takePending() {
	q.mu.Lock()
	name := q.pending[0]
	q.pending = q.pending[1:]
	q.mu.Unlock()
	if name == "" {
		q.cfg.Scan()
		return
	}
	q.Sync(name)
}

// SyncAll synchronizes the given entries and all that are kept, in the order of their names.
func (q *Queue[S]) SyncAll(names []string) {
	all := slices.AppendSeq(slices.Clone(names), maps.Keys(q.entries))
	slices.Sort(all)
	for _, name := range slices.Compact(all) {
		q.Sync(name)
	}
}

// Sync synchronizes one entry in a task of its own. If that is running already, it runs once more
// afterwards.
func (q *Queue[S]) Sync(name string) {
	e := q.entries[name]
	if e == nil {
		e = &entry[S]{}
		q.entries[name] = e
	}
	if e.running {
		e.dirty = true
		return
	}
	e.running, e.dirty = true, false
	q.cfg.Process.Spawn(q.cfg.Verb+" "+q.cfg.Display(name), func(ctx context.Context) {
		err := q.cfg.Sync(ctx, name, &e.state)
		e.running = false
		q.finish(name, e, err)
	})
}

// finish decides what follows a run.
func (q *Queue[S]) finish(name string, e *entry[S], err error) {
	if err != nil {
		action := trace.Action{Kind: trace.KindWork, Verb: q.cfg.Verb, Object: q.cfg.Display(name)}
		q.cfg.Process.Record(action, trace.Outcome{Err: err})
	}
	if err != nil && !q.cfg.Final(&e.state) {
		e.failures++
	} else {
		e.failures = 0
	}
	switch {
	case e.dirty:
		q.Sync(name)
	case e.failures > 0:
		q.retryAfter(name, min(retryMin<<min(e.failures-1, 10), retryMax))
	case !q.cfg.Keep(&e.state):
		delete(q.entries, name)
	}
}

// RetryScan schedules another scan after one that failed.
func (q *Queue[S]) RetryScan() { q.retryAfter("", retryMax) }

func (q *Queue[S]) retryAfter(name string, delay time.Duration) {
	if !q.waiting[name] {
		q.waiting[name] = true
		q.retries.AddAfter(name, delay)
	}
}

// retry repeats a failed run, unless one has succeeded in the meantime.
func (q *Queue[S]) retry(_ context.Context, name string) error {
	delete(q.waiting, name)
	switch e := q.entries[name]; {
	case name == "":
		q.cfg.Scan()
	case e != nil && e.failures > 0:
		q.Sync(name)
	}
	return nil
}

// All returns the kept entries and those being synchronized, in the order of their names.
func (q *Queue[S]) All() iter.Seq2[string, *S] {
	return func(yield func(string, *S) bool) {
		for _, name := range slices.Sorted(maps.Keys(q.entries)) {
			if e := q.entries[name]; e != nil && !yield(name, &e.state) {
				return
			}
		}
	}
}
