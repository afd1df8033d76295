package simtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
)

// keepVariable is the environment variable that disables saving failures if it is "no".
const keepVariable = "VOLSIM_KEEP"

// savedDir returns the directory of a test's saved failures.
func savedDir(t testing.TB) string {
	name := strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:*?"<>| `, r) {
			return '_'
		}
		return r
	}, t.Name())
	return filepath.Join("testdata", "explore", name)
}

// saveFailure writes a failure and its story into a file and returns the path. It returns "" if
// saving is disabled or failed.
func (o origin) saveFailure(t testing.TB, f *explore.Failure) string {
	t.Helper()
	if os.Getenv(keepVariable) == "no" {
		return ""
	}
	file, err := explore.Save(savedDir(t), f)
	if err != nil {
		t.Logf("the failure was not saved: %v", err)
		return ""
	}
	t.Logf("saved in %s, which runs first from now on\npicture: %s\nreplay: %s", file, f.Picture, o.replayCommand(f.Scenario, file))
	return file
}

// runSaved runs the saved failures of a test. withGo adds the parts that a file cannot contain. A
// failure ends the test. If a schedule no longer fits, runSaved searches other schedules of the
// scenario.
func (o origin) runSaved(t testing.TB, withGo func(*scenario.Scenario) (*scenario.Scenario, error), cfg explore.Config) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(escape(savedDir(t)), "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files { // sorted by name
		s, err := withGo(Read(t, file))
		if err != nil {
			t.Fatalf("%s: the saved failure cannot be replayed: %v; remove the file if the test no longer draws this", file, err)
		}
		r, f := replay(t, s)
		if f == nil && r.Mismatch != "" {
			t.Logf("%s: the schedule no longer fits (%s); searching another one", file, r.Mismatch)
			f = search(t, s, cfg).Failure
		} else if f == nil {
			t.Logf("%s: passes", file)
		}
		if f != nil {
			f.Scenario.File, f.Picture = file, pictureOf(file)
			t.Fatalf("%s: %s", file, o.failureText(f, file))
		}
	}
}

// pictureOf returns the path of the picture of a saved failure, "" if it does not exist.
func pictureOf(file string) string {
	drawing := strings.TrimSuffix(file, ".txt") + ".svg"
	if _, err := os.Stat(drawing); err != nil {
		return ""
	}
	return drawing
}

// escape returns a glob pattern for a path.
func escape(path string) string {
	return strings.NewReplacer("[", `\[`).Replace(path)
}
