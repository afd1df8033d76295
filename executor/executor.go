package executor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/sim"
)

// Config is what New must be told.
type Config struct {
	Component *sim.Component
	// OnDone is called after an operation has ended, in the component's monitor, when another on the same key can
	// already start. It must not leave the component. It may be nil.
	OnDone func(op Operation, err error)
}

// Executor runs operations as strands of one component. Its methods are for that component's strands.
//
// Differs: upstream keeps one list of all operations and looks through all of it each time; this looks at the volume's
// only. Upstream lets any other operation on the key reset the back-off, keeps the name of the operation before, and
// leaves failures of keys that are never used again in the list for good; here failures are counted for each key and name
// (see the package). A panic of an operation is not turned into an error.
//
// Upstream: pkg/volume/util/nestedpendingoperations (v1.36).
type Executor struct {
	cfg     Config
	entries map[corev1.UniqueVolumeName][]*entry // running ones and failed ones, in order of first start
	failed  []failure                            // in order of time: when to look for what to forget
	running int
}

// entry is what is known of one name of operation on one key.
type entry struct {
	key      Key
	name     string
	running  bool
	failures int // in succession, not counting one that runs
	failedAt time.Time
	err      error // of the last failure
}

type failure struct {
	volume corev1.UniqueVolumeName
	at     time.Time
}

// New makes an executor that runs nothing.
func New(cfg Config) *Executor {
	return &Executor{cfg: cfg, entries: map[corev1.UniqueVolumeName][]*entry{}}
}

// Start lets the operation run. It returns an error, and does nothing, when an overlapping one runs (*PendingError) or
// when an operation of this name failed on an overlapping key and still has to wait (*BackoffError).
//
// Upstream: pkg/volume/util/nestedpendingoperations Run (v1.36).
func (x *Executor) Start(op Operation) error {
	if err := x.Check(op.Key, op.Name); err != nil {
		return err
	}
	x.forget()
	e := x.entry(op.Key, op.Name)
	e.running = true
	x.running++
	x.cfg.Component.Spawn(op.Name+" "+string(op.Key.Volume), func(ctx context.Context) {
		x.done(op, e, op.Run(ctx))
	})
	return nil
}

// Check returns the error that Start would return now.
//
// Upstream: pkg/volume/util/nestedpendingoperations IsOperationSafeToRetry (v1.36).
func (x *Executor) Check(key Key, name string) error {
	now := x.cfg.Component.Now()
	var latest *BackoffError
	for _, e := range x.entries[key.Volume] {
		if !e.key.Overlaps(key) {
			continue
		}
		if e.running {
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

// Pending tells whether an operation runs whose key overlaps key.
//
// Upstream: pkg/volume/util/nestedpendingoperations IsOperationPending (v1.36).
func (x *Executor) Pending(key Key) bool {
	return slices.ContainsFunc(x.entries[key.Volume], func(e *entry) bool {
		return e.running && e.key.Overlaps(key)
	})
}

// Running is how many operations run.
func (x *Executor) Running() int { return x.running }

// String draws what runs and what has failed, a line each, sorted by volume.
func (x *Executor) String() string {
	var b strings.Builder
	for _, volume := range slices.Sorted(maps.Keys(x.entries)) {
		for _, e := range x.entries[volume] {
			fmt.Fprintf(&b, "%s %s\n", e.key, e)
		}
	}
	return b.String()
}

func (e *entry) String() string {
	if e.running {
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

// entry finds or makes the entry of a key and name. One for a key without a volume is never kept.
func (x *Executor) entry(key Key, name string) *entry {
	for _, e := range x.entries[key.Volume] {
		if e.key == key && e.name == name && key.Volume != "" {
			return e
		}
	}
	e := &entry{key: key, name: name}
	if key.Volume != "" {
		x.entries[key.Volume] = append(x.entries[key.Volume], e)
	}
	return e
}

// done takes in how an operation ended.
func (x *Executor) done(op Operation, e *entry, err error) {
	x.running--
	e.running = false
	switch {
	case op.Key.Volume == "":
	case err != nil:
		e.failures++
		e.failedAt, e.err = x.cfg.Component.Now(), err
		x.failed = append(x.failed, failure{volume: op.Key.Volume, at: e.failedAt})
	default:
		x.drop(op.Key.Volume, func(other *entry) bool {
			return other.name == e.name && other.key.Overlaps(e.key)
		})
	}
	if x.cfg.OnDone != nil {
		x.cfg.OnDone(op, err)
	}
}

// forget drops the failures that are too old to count.
func (x *Executor) forget() {
	horizon := x.cfg.Component.Now().Add(-forgetAfter)
	for len(x.failed) > 0 && !x.failed[0].at.After(horizon) {
		x.drop(x.failed[0].volume, func(e *entry) bool {
			return !e.running && !e.failedAt.After(horizon)
		})
		x.failed = x.failed[1:]
	}
}

func (x *Executor) drop(volume corev1.UniqueVolumeName, which func(*entry) bool) {
	left := slices.DeleteFunc(x.entries[volume], which)
	if len(left) == 0 {
		delete(x.entries, volume)
		return
	}
	x.entries[volume] = left
}
