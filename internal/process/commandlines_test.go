//go:build linux && (amd64 || arm64)

package process_test

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	"github.com/volsim/volsim/internal/testcheck"
)

// A commandLine is a row of the table that internal/shell executes, too.
type commandLine struct {
	Line    string
	Stdout  string
	Stderr  string
	Code    int32
	Differs string // why busybox has another result
	Busybox *result
}

// TestCommandLines executes what the tests of internal/shell execute, with the same results.
func TestCommandLines(t *testing.T) {
	file := testcheck.Must(os.Open("../shell/testdata/commandlines.jsonl"))
	defer file.Close()
	scanner, rows := bufio.NewScanner(file), 0
	for ; scanner.Scan(); rows++ {
		var row commandLine
		testcheck.NoError(t, json.Unmarshal(scanner.Bytes(), &row))
		t.Run(row.Line, func(t *testing.T) {
			t.Parallel()
			want := result{row.Stdout, row.Stderr, row.Code}
			if row.Busybox != nil {
				want = *row.Busybox
			}
			w := newWorld(t)
			testcheck.Equal(t, "result", want, w.finish(t, w.shell(row.Line)))
		})
	}
	testcheck.NoError(t, scanner.Err())
	if rows < 100 {
		t.Errorf("%d rows", rows)
	}
}
