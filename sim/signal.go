package sim

import "slices"

// Signal is something that strands of one component wait for; see Component.WaitOn. The zero value is ready. It is for that
// component's strands.
type Signal struct {
	process  *Process   // of those who wait; nil: nobody waits
	waiting  []*Task    // stepped
	sleeping []*sleeper // live
}

// Broadcast has everybody who waits look again.
func (s *Signal) Broadcast() {
	if s.HasWaiters() {
		s.process.host.broadcast(s)
	}
}

// HasWaiters tells whether somebody waits.
func (s *Signal) HasWaiters() bool { return len(s.waiting)+len(s.sleeping) > 0 }

// removeFirst takes somebody out of those who wait.
func removeFirst[T comparable](list []T, who T) []T {
	i := slices.Index(list, who)
	return slices.Delete(list, i, i+1)
}
