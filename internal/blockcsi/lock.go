package blockcsi

import (
	"context"
	"slices"
	"sync"

	"google.golang.org/grpc/status"
)

// volumeLocks serializes calls for one volume. The zero value is ready. A volume without callers
// uses no memory.
type volumeLocks struct {
	mu   sync.Mutex // guards held
	held map[string]*volumeLock
}

type volumeLock struct {
	free  chan struct{} // holds one token while the volume is unlocked
	users int           // holders and waiters; guarded by volumeLocks.mu
}

// lock locks the volumes and returns a function that unlocks them. If ctx ends first, lock returns
// that as a status. IDs are locked in sorted order, so no two calls deadlock.
func (l *volumeLocks) lock(ctx context.Context, ids ...string) (unlock func(), err error) {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	var unlocks []func()
	unlock = func() {
		for _, each := range slices.Backward(unlocks) {
			each()
		}
	}
	for _, id := range ids {
		one, err := l.lockOne(ctx, id)
		if err != nil {
			unlock()
			return nil, err
		}
		unlocks = append(unlocks, one)
	}
	return unlock, nil
}

func (l *volumeLocks) lockOne(ctx context.Context, volumeID string) (unlock func(), err error) {
	l.mu.Lock()
	if l.held == nil {
		l.held = map[string]*volumeLock{}
	}
	lock := l.held[volumeID]
	if lock == nil {
		lock = &volumeLock{free: make(chan struct{}, 1)}
		lock.free <- struct{}{}
		l.held[volumeID] = lock
	}
	lock.users++
	l.mu.Unlock()

	select {
	case <-lock.free:
		return func() { lock.free <- struct{}{}; l.leave(volumeID, lock) }, nil
	case <-ctx.Done():
		l.leave(volumeID, lock)
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

func (l *volumeLocks) leave(volumeID string, lock *volumeLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lock.users--
	if lock.users == 0 {
		delete(l.held, volumeID)
	}
}
