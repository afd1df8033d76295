package lvm2

import (
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"
)

// locks are locks by name, granted in the order of the requests.
type locks struct {
	mu    sync.Mutex
	named map[string]*namedLock
}

type namedLock struct {
	holder *semaphore.Weighted
	users  int // holders and waiters
}

// acquire locks the names, in the same order for all callers, and returns a function that unlocks
// them. If ctx ends first, acquire returns its error.
func (l *locks) acquire(ctx context.Context, names ...string) (release func(), err error) {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	var held []string
	release = func() {
		for _, name := range slices.Backward(held) {
			l.release(name)
		}
	}
	for _, name := range names {
		if err := l.lock(ctx, name); err != nil {
			release()
			return nil, err
		}
		held = append(held, name)
	}
	return release, nil
}

func (l *locks) lock(ctx context.Context, name string) error {
	l.mu.Lock()
	if l.named == nil {
		l.named = map[string]*namedLock{}
	}
	lock := l.named[name]
	if lock == nil {
		lock = &namedLock{holder: semaphore.NewWeighted(1)}
		l.named[name] = lock
	}
	lock.users++
	l.mu.Unlock()
	err := lock.holder.Acquire(ctx, 1)
	if err != nil {
		l.leave(name)
	}
	return err
}

func (l *locks) release(name string) {
	l.mu.Lock()
	lock := l.named[name]
	l.mu.Unlock()
	lock.holder.Release(1)
	l.leave(name)
}

// leave removes a lock without users.
func (l *locks) leave(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.named[name].users--; l.named[name].users == 0 {
		delete(l.named, name)
	}
}
