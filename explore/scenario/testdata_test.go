package scenario_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/volsim/volsim/explore/scenario"
)

// TestSchedulesThatOnceWentWrong replays the scenarios in testdata, each of which failed before a bug was
// fixed. A schedule that no longer fits proves nothing and must be searched again.
func TestSchedulesThatOnceWentWrong(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no worlds in testdata: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.ToSlash(file), "testdata/"), ".txt")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s, err := scenario.Parse(name, string(text))
			if err != nil {
				t.Fatal(err)
			}
			r, err := s.Run(t.Context(), scenario.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if r.Mismatch != "" {
				t.Errorf("the schedule cannot be kept: %s", r.Mismatch)
			}
			if r.Failure != nil {
				t.Errorf("%v\n%s", r.Failure, r.Trace.Text())
			}
		})
	}
}
