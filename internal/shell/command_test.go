package shell_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/volsim/volsim/internal/testcheck"
)

// A result is what a command line prints, and its exit code.
type result struct {
	Stdout, Stderr string
	Code           int32
}

// A commandLine is a row of the table that internal/process executes with busybox, too.
type commandLine struct {
	Line, Stdout, Stderr string
	Code                 int32
}

// commandLines reads the table.
func commandLines(t *testing.T) []commandLine {
	t.Helper()
	var rows []commandLine
	for line := range bytes.Lines(testcheck.Must(os.ReadFile("testdata/commandlines.jsonl"))) {
		var row commandLine
		testcheck.NoError(t, json.Unmarshal(line, &row))
		rows = append(rows, row)
	}
	if len(rows) < 100 {
		t.Fatalf("%d rows", len(rows))
	}
	return rows
}

// TestCommandLines runs each command line in a container of its own, on both hosts.
func TestCommandLines(t *testing.T) {
	for name, host := range hosts {
		t.Run(name, func(t *testing.T) {
			for _, c := range commandLines(t) {
				w := newWorld(t, host())
				stdout, stderr, state := w.finish(t, spec("main", "sh", "-c", c.Line))
				testcheck.Equal(t, fmt.Sprintf("result of %s", c.Line), result{c.Stdout, c.Stderr, c.Code}, result{stdout, stderr, state.Code})
				w.host.Close()
			}
		})
	}
}
