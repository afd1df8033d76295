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
	// recreating are the tests that delete claims and nodes and create them again at once. Upstream's API server does
	// not protect claims in these tests; ours does, so some are not gone yet.
	recreating = "^(TestVolumeProvision|TestCapacity|TestStorageCapacityScoring)$"
	// main replaces upstream's TestMain, which starts etcd.
	main = "package volumescheduling\n"
)

// TestIntegration builds and runs upstream's tests.
func TestIntegration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "suite.test")
	build := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay(t, dir), "-o", program, "./suite")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build upstream's tests: %v\n%s", err, out)
	}
	run := exec.Command(program, "-test.v", "-test.skip="+recreating)
	run.Dir = dir
	out, err := run.CombinedOutput()
	passed := strings.Count(string(out), "--- PASS: ")
	t.Logf("%d tests and subtests pass", passed)
	if err != nil || passed < 1 {
		t.Errorf("%v\n%s", err, failures(string(out)))
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
