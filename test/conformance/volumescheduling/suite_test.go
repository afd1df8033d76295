package volumescheduling

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const (
	upstream = "k8s.io/kubernetes/test/integration/"
	suite    = upstream + "volumescheduling"
	ours     = "github.com/volsim/volsim/test/conformance/volumescheduling/testutil"
	// inSuite is the number of upstream's tests and subtests.
	inSuite = 27
	// main replaces upstream's TestMain, which starts etcd.
	main = "package volumescheduling\n"
)

// TestIntegration builds and runs upstream's tests. They mostly wait, so all run at the same time, each in a process of
// its own.
func TestIntegration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "suite.test")
	build := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay(t, dir), "-o", program, "./suite")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build upstream's tests: %v\n%s", err, out)
	}
	names, err := exec.Command(program, "-test.list", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	type run struct {
		*exec.Cmd
		name string
		out  *bytes.Buffer
	}
	var runs []run
	for name := range strings.FieldsSeq(string(names)) {
		r := run{exec.CommandContext(t.Context(), program, "-test.v", "-test.run=^"+name+"$"), name, &bytes.Buffer{}}
		r.Dir, r.Stdout, r.Stderr = dir, r.out, r.out
		if err := r.Start(); err != nil {
			t.Fatal(err)
		}
		runs = append(runs, r)
	}
	passed := 0
	for _, r := range runs {
		if err := r.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", r.name, err, failures(r.out.String()))
		}
		passed += strings.Count(r.out.String(), "--- PASS: ")
	}
	if passed != inSuite {
		t.Errorf("%d tests and subtests pass, want %d", passed, inSuite)
	}
}

// overlay writes a file that adds the package "suite" to this folder for the go command: upstream's tests,
// which import our package testutil instead of upstream's.
func overlay(t *testing.T, dir string) string {
	t.Helper()
	folder, err := exec.Command("go", "list", "-f", "{{.Dir}}", suite).Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(folder)), "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal("no files: ", err)
	}
	replace := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		if name == "main_test.go" {
			text = []byte(main)
		}
		text = bytes.ReplaceAll(text, []byte(strconv.Quote(upstream+"util")), []byte(strconv.Quote(ours)))
		to := filepath.Join(dir, name)
		if err := os.WriteFile(to, text, 0o600); err != nil {
			t.Fatal(err)
		}
		at, err := filepath.Abs(filepath.Join("suite", name))
		if err != nil {
			t.Fatal(err)
		}
		replace[at] = to
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// failures returns the lines of an output that say what failed.
func failures(out string) string {
	var lines []string
	for line := range strings.Lines(out) {
		if strings.Contains(line, "FAIL") || strings.Contains(line, "_test.go:") || strings.HasPrefix(line, "panic") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}
