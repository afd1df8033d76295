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

// defaultLimit is the default of Config.Limit. It allows one attach on each node of the largest
// cluster that Kubernetes supports.
const defaultLimit = 10_000

// Config configures an Executor.
type Config struct {
	Process *sim.Process
	// OnDone is called in the process when an operation has ended and another one on the same key
	// can start. It must not leave the process. It may be nil.
	OnDone func(op Operation, outcome Outcome, err error)
	// Limit bounds the number of running operations. An operation on a volume without running
	// operations starts regardless. 0 means 10,000.
	Limit int
}

// An Executor runs operations as tasks of one process. Only tasks of that process may call its
// methods.
//
// Differs: upstream searches one list of all operations; this searches the operations of one
// volume. Upstream resets the back-off when any other operation uses the key, keeps the previous
// operation's name, and never drops failures of unused keys. Here failures are counted for each key
// and name (see the package documentation). Upstream does not bound the number of operations.
//
// Upstream: pkg/volume/util/nestedpendingoperations (v1.36).
type Executor struct {
	cfg     Config
	volumes map[corev1.UniqueVolumeName]*volumeJobs
	failed  []failure // sorted by time
	queue   []*job    // waiting jobs in order; may contain jobs launched out of order
	running int       // tasks
	pending int       // operations started and not ended
}

// volumeJobs holds the state of one volume.
type volumeJobs struct {
	entries []*entry // running and failed operations, in order of first start
	running int      // tasks
	queue   []*job   // waiting jobs in order
}

// An entry holds the state of one operation name on one key.
type entry struct {
	key      Key
	name     string
	pending  bool // started and not ended
	failures int  // in succession, without a running attempt
	failedAt time.Time
	err      error // last failure
}

// A job is an operation that was started.
type job struct {
	op       Operation
	entry    *entry
	launched bool // its task exists
}

type failure struct {
	volume corev1.UniqueVolumeName
	at     time.Time
}

// New returns an executor without operations.
func New(cfg Config) *Executor {
	cfg.Limit = cmp.Or(cfg.Limit, defaultLimit)
	return &Executor{cfg: cfg, volumes: map[corev1.UniqueVolumeName]*volumeJobs{}}
}

// Start runs the operation, or queues it if the limit is reached. It returns an error, and does
// nothing, if an overlapping operation runs or is queued (*PendingError). It returns a
// *BackoffError if an operation of this name failed on an overlapping key and its back-off has not
// passed.
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

// launch starts the task of a job.
func (x *Executor) launch(b *job) {
	b.launched = true
	x.running++
	x.volumes[b.op.Key.Volume].running++
	x.cfg.Process.Spawn(b.op.Name+" "+string(b.op.Key.Volume), func(ctx context.Context) {
		err := x.run(ctx, b.op)
		x.finish(b, err)
	})
}

// run executes an operation and returns a panic as an error. The panic that unwinds a task of a
// crashed process passes through.
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
		logr.FromContextOrDiscard(ctx).Error(panicked, "operation panicked", "operation", op.Name,
			"key", op.Key.String(), "stack", panicked.Stack)
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

// Pending reports whether an operation whose key overlaps key runs or is queued.
//
// Upstream: pkg/volume/util/nestedpendingoperations IsOperationPending (v1.36).
func (x *Executor) Pending(key Key) bool {
	t := x.volumes[key.Volume]
	return t != nil && slices.ContainsFunc(t.entries, func(e *entry) bool {
		return e.pending && e.key.Overlaps(key)
	})
}

// Running returns the number of operations that were started and have not ended.
func (x *Executor) Running() int { return x.pending }

// Wait leaves the process until all operations have ended or limit has passed (0: no limit). It
// reports whether all operations have ended. Recorded failures do not delay it.
//
// Differs: upstream may wait indefinitely for failures of keys that are never used again.
//
// Upstream: pkg/volume/util/nestedpendingoperations Wait (v1.36).
func (x *Executor) Wait(limit time.Duration) bool {
	return x.cfg.Process.Wait("the end of all operations", limit, func() bool { return x.pending == 0 })
}

// String returns one line for each running or failed operation, sorted by volume.
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
	return fmt.Sprintf("%s failed %d times, waits %v: %v", e.name, e.failures, backoff(e.failures), e.err)
}

func (e *entry) backoff(now time.Time) *BackoffError {
	wait := backoff(e.failures)
	return &BackoffError{
		Key: e.key, Name: e.name, FailedAt: e.failedAt, Failures: e.failures, Err: e.err,
		Wait: wait, Remaining: e.failedAt.Add(wait).Sub(now),
	}
}

// jobsOf returns the state of a volume, and creates it if necessary.
func (x *Executor) jobsOf(volume corev1.UniqueVolumeName) *volumeJobs {
	t := x.volumes[volume]
	if t == nil {
		t = &volumeJobs{}
		x.volumes[volume] = t
	}
	return t
}

// entry returns the entry of a key and name, and creates it if necessary. An entry for a key
// without a volume is not kept.
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

// finish processes the result of an operation.
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
	outcome := outcomeOf(err)
	if b.op.Done != nil {
		b.op.Done(outcome, err)
	}
	if x.cfg.OnDone != nil {
		x.cfg.OnDone(b.op, outcome, err)
	}
}

// launchQueued launches queued jobs as far as the limit allows. If nothing runs on the volume of t,
// it launches the first queued job of t in any case.
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

// launchFirstOf launches the first queued job of a volume.
func (x *Executor) launchFirstOf(t *volumeJobs) {
	b := t.queue[0]
	t.queue = t.queue[1:]
	x.launch(b)
}

// nextQueued returns the first queued job that was not launched, or nil. It is also the first
// queued job of its volume.
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

// expireFailures drops failures older than forgetAfter.
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

// dropIfIdle drops the state of a volume that has neither running nor failed operations.
func (x *Executor) dropIfIdle(volume corev1.UniqueVolumeName) {
	if t := x.volumes[volume]; len(t.entries) == 0 && t.running == 0 {
		delete(x.volumes, volume)
	}
}
