package testcheck_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/volsim/volsim/internal/testcheck"
)

// recorder is a test that records its failures and goes on.
type recorder struct {
	testing.TB
	failures []string
}

func (r *recorder) Helper()           {}
func (r *recorder) Fatal(args ...any) { r.failures = append(r.failures, "fatal: "+fmt.Sprint(args...)) }

func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func TestNoError(t *testing.T) {
	r := &recorder{TB: t}
	testcheck.NoError(r, nil, nil)
	testcheck.NoError(r, nil, errors.New("defect"))
	testcheck.Equal(t, "failures", []string{"fatal: defect"}, r.failures)
}

func TestEqual(t *testing.T) {
	r := &recorder{TB: t}
	testcheck.Equal(r, "nothing", nil, []string{})
	testcheck.Equal(r, "number", 1, 1)
	if len(r.failures) > 0 {
		t.Errorf("equal values failed: %q", r.failures)
	}
	testcheck.Equal(r, "number", 1, 2)
	if len(r.failures) != 1 || !strings.HasPrefix(r.failures[0], "number (-want +got):\n") {
		t.Errorf("different values: got %q", r.failures)
	}
}

// TestMustPanics: an error is a defect of the test.
func TestMustPanics(t *testing.T) {
	if testcheck.Must(1, nil) != 1 {
		t.Error("Must did not return the value")
	}
	defer func() {
		if recover() == nil {
			t.Error("Must did not panic")
		}
	}()
	testcheck.Must(0, errors.New("defect"))
}
