package page

import "sync"

// news numbers the states of a world. The zero value is ready. Methods may be called concurrently.
type news struct {
	mu      sync.Mutex
	version int64         // guarded by mu
	changed chan struct{} // guarded by mu: closed with the next state; nil: nobody has asked
}

// News is the number of the present state, and a channel that is closed when there is another one.
func (n *news) News() (version int64, changed <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changed == nil {
		n.changed = make(chan struct{})
	}
	return n.version, n.changed
}

// announce says that the state is another one.
func (n *news) announce() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.version++
	if n.changed != nil {
		close(n.changed)
		n.changed = nil
	}
}
