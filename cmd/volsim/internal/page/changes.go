package page

import "sync"

// A changeNotifier numbers the states of a world. The zero value is ready to use. Its methods are
// safe for concurrent use.
type changeNotifier struct {
	mu      sync.Mutex
	version int64         // guarded by mu
	changed chan struct{} // guarded by mu: closed at the next change; nil: no waiter
}

// Changes returns the current version, and a channel that is closed at the next change.
func (n *changeNotifier) Changes() (version int64, changed <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changed == nil {
		n.changed = make(chan struct{})
	}
	return n.version, n.changed
}

// notify increments the version and wakes the waiters.
func (n *changeNotifier) notify() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.version++
	if n.changed != nil {
		close(n.changed)
		n.changed = nil
	}
}
