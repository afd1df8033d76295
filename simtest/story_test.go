package simtest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/simtest"
)

// snippetOf returns the test that the message of a failing test contains.
func snippetOf(t *testing.T, said string) string {
	t.Helper()
	_, after, found := strings.Cut(said, "or paste this test into the package:\n\n")
	end := strings.Index(after, "\n}\n")
	if !found || end < 0 {
		t.Fatalf("no test to paste in\n%s", said)
	}
	return after[:end+3]
}

// The test that a failure contains compiles as it is, also indented as in the log of a test.
func TestSnippetsCompile(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs the go command")
	}
	parent, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(parent, 0o755); err != nil {
		t.Fatal(err)
	}
	folder, err := os.MkdirTemp(parent, "snippet")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	t.Chdir(t.TempDir())
	rapidly(t, "seed=1", "checks=30")
	text := "package snippet_test\n\nimport (\n\t\"testing\"\n\n\t\"github.com/volsim/volsim/simtest\"\n)\n\n"
	drawn, _ := listen(checkReserver(careless))
	inGo := snippetOf(t, drawn)
	wantWords(t, inGo, "world := s // replace s by the scenario of simtest.Check at simtest/explore_test.go:",
		", which has: component reserver, interceptors\n", "simtest.Replay(t, s.WithGo(world), \"\")")
	text += inGo + "\n"
	t.Chdir(t.TempDir())
	searched, _ := listen(func(t testing.TB) { simtest.Search(t, simtest.Parse(t, overtaken), explore.Config{}) })
	text += strings.Replace(strings.ReplaceAll(snippetOf(t, searched), "\n", "\n        "), "Listened", "Text", 1) + "\n\n"
	t.Chdir(t.TempDir()) // without saved failures
	drawn, _ = listen(checkCopier())
	text += strings.Replace(snippetOf(t, drawn), "Listened", "Drawn", 1)
	if err := os.WriteFile(filepath.Join(folder, "snippet_test.go"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), "go", "test", folder)
	run.Dir = folder
	out, err := run.CombinedOutput()
	if err == nil {
		t.Errorf("the tests pass:\n%s", out)
	}
	// The schedule of the first does not fit, as the world lacks the reserver. The second fails again.
	wantWords(t, string(out), "--- FAIL: TestReplayOfListened", "the schedule does not fit: ",
		"--- FAIL: TestReplayOfText", "in the default order: empty", "--- FAIL: TestReplayOfDrawn")
}
