package cli

import (
	"context"
	"errors"
	"fmt"
	"syscall"
)

// Exit statuses.
const (
	Success = 0
	Failure = 1 // the command failed, or found a failure
	Usage   = 2 // the command line, or a file named on it, is invalid
	Signal  = 128
)

// StatusHelp documents the exit statuses in a help text.
const StatusHelp = "Exit status: 0 success, 1 the command failed or found a failure, 2 invalid command line, 128+N ended by signal N,\n" +
	"such as 130 for Ctrl-C. A command whose output is a closed pipe ends with 141."

// A Status ends a command with an exit status and without a message.
type Status int

// Error returns the status in words.
func (s Status) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// A UsageError reports an invalid command line, or an invalid file named on it.
type UsageError struct{ Err error }

// Error returns the text of the wrapped error.
func (u UsageError) Error() string { return u.Err.Error() }

// Unwrap returns the wrapped error.
func (u UsageError) Unwrap() error { return u.Err }

// An Interrupted error is returned by a command that ended because its context did. Its text is the
// message; an empty one prints nothing.
type Interrupted string

// Error returns the message.
func (i Interrupted) Error() string { return string(i) }

// Is reports whether target is [context.Canceled].
func (Interrupted) Is(target error) bool { return target == context.Canceled }

// End prints why a command ended and returns its exit status. The error is the command's own, or
// nil.
func (s *Streams) End(program string, err error) int {
	ended := context.Cause(s.ctx)
	defer s.end(nil)
	output := s.Out.firstError()
	report := func(err error) {
		if text := err.Error(); text != "" {
			fmt.Fprintf(s.Err, "%s: %s\n", program, text)
		}
	}
	var status Status
	var wrong UsageError
	var stopped Interrupted
	switch interrupted := ended != nil && errors.Is(err, context.Canceled); {
	case output != nil && (err == nil || interrupted || errors.Is(err, output)):
		if isClosedPipe(output) {
			return Signal + int(syscall.SIGPIPE)
		}
		if errors.Is(output, errBlocked) {
			return signalStatus(ended)
		}
		report(output)
		return Failure
	case err == nil:
		return Success
	case interrupted:
		switch text := err.Error(); {
		case errors.As(err, &stopped):
		case text == context.Canceled.Error():
			stopped = "interrupted"
		default: // what the command was waiting for
			stopped = Interrupted("interrupted: " + text)
		}
		report(stopped)
		return signalStatus(ended)
	case errors.As(err, &status):
		if output != nil && !isClosedPipe(output) {
			report(output)
		}
		return int(status)
	case errors.As(err, &wrong):
		report(err)
		return Usage
	default:
		report(err)
		return Failure
	}
}

// signalStatus returns the status of a program that ended because of a signal. Without a known
// signal it is that of SIGINT.
func signalStatus(ended error) int {
	s := signalError{syscall.SIGINT}
	errors.As(ended, &s)
	return Signal + int(s.signal)
}
