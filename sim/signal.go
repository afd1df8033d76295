package sim

import "slices"

// Signal is something that strands of one component wait for; see Component.WaitOn. The zero value is ready. It is for that
// component's strands.
type Signal struct {
	c       *Component // of those who wait; nil: nobody waits
	waiting []*Actor   // stepped
	asleep  []*sleeper // live
}

// Give has everybody who waits look again.
func (s *Signal) Give() {
	if s.Awaited() {
		s.c.host.give(s)
	}
}

// Awaited tells whether somebody waits.
func (s *Signal) Awaited() bool { return len(s.waiting)+len(s.asleep) > 0 }

// drop takes somebody out of those who wait.
func drop[T comparable](list []T, who T) []T {
	i := slices.Index(list, who)
	return slices.Delete(list, i, i+1)
}
