package fake

import "github.com/volsim/volsim/fake/internal/admit"

// SetAdmitter sets what admits requests, before the server is used. It is called by package fake/admission. nil: nothing.
func (s *Server) SetAdmitter(by admit.Admitter) { s.admitter = by }

// Admitter returns what SetAdmitter set.
func (s *Server) Admitter() admit.Admitter { return s.admitter }
