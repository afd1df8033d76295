package sim

import "slices"

// A Signal is a condition variable for tasks of one process; see Process.WaitOn. The zero value is
// ready to use. Only tasks of that process may use it.
type Signal struct {
	process  *Process   // of the waiting tasks; nil: none has waited
	waiting  []*Task    // stepped
	sleeping []*sleeper // live
}

// Broadcast makes all waiting tasks check their conditions.
func (s *Signal) Broadcast() {
	if s.HasWaiters() {
		s.process.host.broadcast(s)
	}
}

// HasWaiters reports whether a task waits.
func (s *Signal) HasWaiters() bool { return len(s.waiting)+len(s.sleeping) > 0 }

// removeFirst removes an element from a list.
func removeFirst[T comparable](list []T, who T) []T {
	i := slices.Index(list, who)
	return slices.Delete(list, i, i+1)
}
