package testcheck

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// T is what a testing.TB and a rapid.T have in common.
type T interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
}

// NoError ends the test if one of the errors is not nil.
func NoError(t T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// Must returns v. It panics if err is not nil: use it where an error is a defect of the test.
func Must[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}

// Equal fails the test if got differs from want. Nil and an empty slice or map are equal. what names
// the values in the failure.
func Equal[V any](t T, what string, want, got V, opts ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, append(opts, cmpopts.EquateEmpty())...); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Stepped skips a test in short mode, in which tests run with the race detector: all its worlds are stepped, so one task runs at
// a time, and the detector finds little for many times the time. The full run has the test.
func Stepped(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: all its worlds are stepped; the full run has it")
	}
}
