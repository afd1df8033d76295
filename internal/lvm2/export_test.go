//go:build linux

package lvm2

// SetCommand makes a System run another program in place of lvm, and returns the program that it
// ran before.
func (s *System) SetCommand(path string) (before string) {
	before, s.command = s.command, path
	return before
}
