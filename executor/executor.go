package executor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/sim"
)

// DefaultLimit is the bound on running operations where Config says nothing: enough to attach one volume to each node of the
// largest cluster that Kubernetes supports, at once.
const DefaultLimit = 10_000

// Config is what New must be told.
type Config struct {
	Process *sim.Process
	// OnDone is called after an operation has ended, in the component's monitor, when another on the same key can
	// already start. It must not leave the component. It may be nil.
	OnDone func(op Operation, outcome Outcome, err error)
	// Limit bounds how many operations run at once. One on a volume of which nothing runs begins all the same. 0:
	// DefaultLimit.
	Limit int
}

// Executor runs operations as strands of one component. Its methods are for that component's strands.
//
// Differs: upstream keeps one list of all operations and looks through all of it each time; this looks at the volume's
// only. Upstream lets any other operation on the key reset the back-off, keeps the name of the operation before, and
// leaves failures of keys that are never used again in the list for good; here failures are counted for each key and name
// (see the package). Upstream runs as many operations as there are.
//
// Upstream: pkg/volume/util/nestedpendingoperations (v1.36).
type Executor struct {
	cfg     Config
	volumes map[corev1.UniqueVolumeName]*volumeJobs
	failed  []failure // in order of time: when to look for what to forget
	queue   []*job    // those that wait for their turn, in order, and such as had it out of order
	running int       // strands
	pending int       // operations that were started and have not ended
}

// volumeJobs is what is known of one volume.
type volumeJobs struct {
	entries []*entry // running ones and failed ones, in order of first start
	running int      // strands
	queue   []*job   // those that wait for their turn, in order
}

// entry is what is known of one name of operation on one key.
type entry struct {
	key      Key
	name     string
	pending  bool // it was started, and has not ended
	failures int  // in succession, not counting one that runs
	failedAt time.Time
	err      error // of the last failure
}

// job is an operation that was started.
type job struct {
	op       Operation
	entry    *entry
	launched bool // it has its strand
}

type failure struct {
	volume corev1.UniqueVolumeName
	at     time.Time
}

// New makes an executor that runs nothing.
func New(cfg Config) *Executor {
	cfg.Limit = cmp.Or(cfg.Limit, DefaultLimit)
	return &Executor{cfg: cfg, volumes: map[corev1.UniqueVolumeName]*volumeJobs{}}
}

// Start lets the operation run, as soon as the bound lets it. It returns an error, and does nothing, when an overlapping one
// runs or is to run (*PendingError) or when an operation of this name failed on an overlapping key and still has to wait
// (*BackoffError).
//
// Upstream: pkg/volume/util/nestedpendingoperations Run (v1.36).
func (x *Executor) Start(op Operation) error {
	if err := x.Check(op.Key, op.Name); err != nil {
		return err
	}
	x.expireFailures()
	t := x.jobsOf(op.Key.Volume)
	b := &job{op: op, entry: t.entry(op.Key, op.Name)}
	b.entry.pending = true
	x.pending++
	if x.running >= x.cfg.Limit && t.running > 0 {
		x.queue, t.queue = append(x.queue, b), append(t.queue, b)
		return nil
	}
	x.launch(b)
	return nil
}

// launch gives an operation its strand.
func (x *Executor) launch(b *job) {
	b.launched = true
	x.running++
	x.volumes[b.op.Key.Volume].running++
	x.cfg.Process.Spawn(b.op.Name+" "+string(b.op.Key.Volume), func(ctx context.Context) {
		err := x.run(ctx, b.op)
		x.finish(b, err)
	})
}

// run lets an operation do its work. A panic is its failure, but for the one that carries a strand out of a component that
// has ended.
func (x *Executor) run(ctx context.Context, op Operation) (err error) {
	defer func() {
		value := recover()
		if value == nil {
			return
		}
		if sim.Unwinding(value) {
			panic(value)
		}
		panicked := &PanicError{Value: value, Stack: string(debug.Stack())}
		x.cfg.Process.RecordPanic(value, panicked.Stack)
		logr.FromContextOrDiscard(ctx).Error(panicked, "operation panicked", "operation", op.Name, "key", op.Key.String(), "stack", panicked.Stack)
		err = panicked
	}()
	return op.Run(ctx)
}

// Check returns the error that Start would return now.
//
// Upstream: pkg/volume/util/nestedpendingoperations IsOperationSafeToRetry (v1.36).
func (x *Executor) Check(key Key, name string) error {
	t := x.volumes[key.Volume]
	if t == nil {
		return nil
	}
	now := x.cfg.Process.Now()
	var latest *BackoffError
	for _, e := range t.entries {
		if !e.key.Overlaps(key) {
			continue
		}
		if e.pending {
			return &PendingError{Key: key, Running: e.key, Name: e.name}
		}
		if e.name != name {
			continue
		}
		if b := e.backoff(now); b.Remaining > 0 && (latest == nil || b.Remaining > latest.Remaining) {
			latest = b
		}
	}
	if latest != nil {
		return latest
	}
	return nil
}

// Pending tells whether an operation runs, or is to run, whose key overlaps key.
//
// Upstream: pkg/volume/util/nestedpendingoperations IsOperationPending (v1.36).
func (x *Executor) Pending(key Key) bool {
	t := x.volumes[key.Volume]
	return t != nil && slices.ContainsFunc(t.entries, func(e *entry) bool {
		return e.pending && e.key.Overlaps(key)
	})
}

// Running is how many operations were started and have not ended.
func (x *Executor) Running() int { return x.pending }

// Wait leaves the component until all operations have ended, or limit has passed (0: no limit). It returns whether they
// have. Failures that are remembered do not hold it up.
//
// Differs: upstream may wait for ever for failures of keys that are never used again.
//
// Upstream: pkg/volume/util/nestedpendingoperations Wait (v1.36).
func (x *Executor) Wait(limit time.Duration) bool {
	return x.cfg.Process.Wait("the end of all operations", limit, func() bool { return x.pending == 0 })
}

// String draws what runs and what has failed, a line each, sorted by volume.
func (x *Executor) String() string {
	var b strings.Builder
	for _, volume := range slices.Sorted(maps.Keys(x.volumes)) {
		for _, e := range x.volumes[volume].entries {
			fmt.Fprintf(&b, "%s %s\n", e.key, e)
		}
	}
	return b.String()
}

func (e *entry) String() string {
	if e.pending {
		return fmt.Sprintf("%s running, %d failures before", e.name, e.failures)
	}
	return fmt.Sprintf("%s failed %d times, waits %v: %v", e.name, e.failures, Backoff(e.failures), e.err)
}

func (e *entry) backoff(now time.Time) *BackoffError {
	wait := Backoff(e.failures)
	return &BackoffError{
		Key: e.key, Name: e.name, FailedAt: e.failedAt, Failures: e.failures, Err: e.err,
		Wait: wait, Remaining: e.failedAt.Add(wait).Sub(now),
	}
}

// jobsOf finds or makes a volume's table.
func (x *Executor) jobsOf(volume corev1.UniqueVolumeName) *volumeJobs {
	t := x.volumes[volume]
	if t == nil {
		t = &volumeJobs{}
		x.volumes[volume] = t
	}
	return t
}

// entry finds or makes the entry of a key and name. One for a key without a volume is never kept.
func (t *volumeJobs) entry(key Key, name string) *entry {
	for _, e := range t.entries {
		if e.key == key && e.name == name && key.Volume != "" {
			return e
		}
	}
	e := &entry{key: key, name: name}
	if key.Volume != "" {
		t.entries = append(t.entries, e)
	}
	return e
}

// finish takes in how an operation ended.
func (x *Executor) finish(b *job, err error) {
	volume := b.op.Key.Volume
	t := x.volumes[volume]
	x.running--
	x.pending--
	t.running--
	b.entry.pending = false
	switch {
	case volume == "":
	case err != nil:
		b.entry.failures++
		b.entry.failedAt, b.entry.err = x.cfg.Process.Now(), err
		x.failed = append(x.failed, failure{volume: volume, at: b.entry.failedAt})
	default:
		t.entries = slices.DeleteFunc(t.entries, func(other *entry) bool {
			return other.name == b.entry.name && other.key.Overlaps(b.entry.key)
		})
	}
	x.launchQueued(t)
	x.dropIfIdle(volume)
	outcome := OutcomeOf(err)
	if b.op.Done != nil {
		b.op.Done(outcome, err)
	}
	if x.cfg.OnDone != nil {
		x.cfg.OnDone(b.op, outcome, err)
	}
}

// launchQueued gives those their turn that have one now that an operation has ended: the first ones, as far as the bound lets them,
// and if nothing else runs of that operation's volume, the volume's first.
func (x *Executor) launchQueued(t *volumeJobs) {
	for x.running < x.cfg.Limit {
		b := x.nextQueued()
		if b == nil {
			break
		}
		x.launchFirstOf(x.volumes[b.op.Key.Volume])
	}
	if t.running == 0 && len(t.queue) > 0 {
		x.launchFirstOf(t)
	}
}

// launchFirstOf gives the first operation of a volume that waits its strand.
func (x *Executor) launchFirstOf(t *volumeJobs) {
	b := t.queue[0]
	t.queue = t.queue[1:]
	x.launch(b)
}

// nextQueued is the first operation of all that did not have its turn yet, which is the first of its volume's, too; nil: there is
// none.
func (x *Executor) nextQueued() *job {
	for len(x.queue) > 0 {
		b := x.queue[0]
		x.queue = x.queue[1:]
		if !b.launched {
			return b
		}
	}
	return nil
}

// expireFailures drops the failures that are too old to count.
func (x *Executor) expireFailures() {
	horizon := x.cfg.Process.Now().Add(-forgetAfter)
	for len(x.failed) > 0 && !x.failed[0].at.After(horizon) {
		volume := x.failed[0].volume
		x.failed = x.failed[1:]
		if t := x.volumes[volume]; t != nil {
			t.entries = slices.DeleteFunc(t.entries, func(e *entry) bool {
				return !e.pending && !e.failedAt.After(horizon)
			})
			x.dropIfIdle(volume)
		}
	}
}

// dropIfIdle drops the table of a volume of which nothing is known.
func (x *Executor) dropIfIdle(volume corev1.UniqueVolumeName) {
	if t := x.volumes[volume]; len(t.entries) == 0 && t.running == 0 {
		delete(x.volumes, volume)
	}
}
