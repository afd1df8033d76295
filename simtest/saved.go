package simtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
)

// keepVariable is the environment's word for whether failures are kept: not if it is "no".
const keepVariable = "VOLSIM_KEEP"

// savedDir is the folder of a test's kept failures.
func savedDir(t testing.TB) string {
	name := strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:*?"<>| `, r) {
			return '_'
		}
		return r
	}, t.Name())
	return filepath.Join("testdata", "explore", name)
}

// saveFailure writes a failure into a file named for what is in it, with its story, and returns the file's name; "" if it is not to
// be written, or could not be.
func saveFailure(t testing.TB, f *explore.Failure) string {
	t.Helper()
	if os.Getenv(keepVariable) == "no" {
		return ""
	}
	file, err := explore.Save(savedDir(t), f)
	if err != nil {
		t.Logf("the failure is not kept: %v", err)
		return ""
	}
	t.Logf("kept in %s, and run first from now on\nreplay: %s", file, replayCommand(f.Scenario, file))
	return file
}

// runSaved runs what is kept for a test, in a world that has what cannot be written down. A failure ends the test. Where a
// schedule does not fit any more, schedules of what its users do are searched.
func runSaved(t testing.TB, world *scenario.Scenario, cfg explore.Config) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(escape(savedDir(t)), "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files { // in the order of their names
		s := Read(t, file)
		s.Extra, s.Interceptors = world.Extra, world.Interceptors
		r, f := replay(t, s)
		if f == nil && r.Mismatch != "" {
			t.Logf("%s: the schedule does not fit any more (%s); searching another", file, r.Mismatch)
			f = search(t, s, cfg).Failure
		} else if f == nil {
			t.Logf("%s: passes", file)
		}
		if f != nil {
			t.Fatalf("%s: %s", file, failureText(f, file))
		}
	}
}

// escape makes a pattern of a path.
func escape(path string) string {
	return strings.NewReplacer("[", `\[`).Replace(path)
}
