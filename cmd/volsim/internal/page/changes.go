package page

import "sync"

// changeNotifier numbers the states of a world. The zero value is ready. Methods may be called concurrently.
type changeNotifier struct {
	mu      sync.Mutex
	version int64         // guarded by mu
	changed chan struct{} // guarded by mu: closed with the next state; nil: nobody has asked
}

// Changes is the number of the present state, and a channel that is closed when there is another one.
func (n *changeNotifier) Changes() (version int64, changed <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changed == nil {
		n.changed = make(chan struct{})
	}
	return n.version, n.changed
}

// notify says that the state is another one.
func (n *changeNotifier) notify() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.version++
	if n.changed != nil {
		close(n.changed)
		n.changed = nil
	}
}
