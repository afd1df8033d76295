package framework

import "strings"

// A Code says what follows from a plugin's answer.
type Code int

// The codes. The zero value is Success.
const (
	Success                      Code = iota
	Error                             // something failed; the pod is retried
	Unschedulable                     // other pods on the node may be the cause
	UnschedulableAndUnresolvable      // preemption does not help
	Skip                              // PreFilter, PreScore: the plugin has nothing to do in this cycle
)

// Status is the answer of a plugin. nil is Success.
//
// Upstream: k8s.io/kube-scheduler/framework Status (v1.36).
type Status struct {
	Code    Code
	Reasons []string
	Plugin  string // that answered; set by the scheduler
	Err     error  // of code Error
}

// SkipCycle is the answer of a plugin that has nothing to do in a cycle.
var SkipCycle = &Status{Code: Skip}

// NewStatus returns a status with reasons.
func NewStatus(code Code, reasons ...string) *Status { return &Status{Code: code, Reasons: reasons} }

// AsStatus returns the status of an error, nil for none.
func AsStatus(err error) *Status {
	if err == nil {
		return nil
	}
	return &Status{Code: Error, Err: err, Reasons: []string{err.Error()}}
}

// CodeOf returns the code; Success for nil.
func (s *Status) CodeOf() Code {
	if s == nil {
		return Success
	}
	return s.Code
}

// IsRejected reports whether the plugin says that the pod does not fit.
func (s *Status) IsRejected() bool {
	return s.CodeOf() == Unschedulable || s.CodeOf() == UnschedulableAndUnresolvable
}

// Message returns the reasons as a text.
func (s *Status) Message() string {
	if s == nil {
		return ""
	}
	return strings.Join(s.Reasons, ", ")
}
