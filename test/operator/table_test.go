package operator_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/volsim/volsim/test/operator/controller"
)

var update = flag.Bool("update", false, "measure the table in README.md again, which takes some minutes")

// A suite is a way to test the operator.
type suite struct{ test, file string }

var (
	fakeClient = suite{"TestFakeClient", "fakeclient_test.go"}
	live       = suite{"TestLive", "live_test.go"}
	stepped    = suite{"TestStepped", "stepped_test.go"}
)

// repetitions returns how often a suite runs to be measured.
func (s suite) repetitions() int {
	if s == live {
		return 4 // it may find a bug or not
	}
	return 3
}

// A result is what runs of a suite with one bug have found.
type result struct {
	found, runs int
	schedule    int           // stepped: number of the failing one; 0: not known
	took        time.Duration // median: of the processor; live: until the end
	output      string        // of the last failing run
}

// run runs a suite with a bug, in processes of their own.
func (s suite) run(t *testing.T, bug controller.Bug, runs int) result {
	t.Helper()
	out := result{runs: runs}
	var times []time.Duration
	for range runs {
		cmd := exec.Command(os.Args[0], "-test.run=^"+s.test, "-test.failfast")
		cmd.Env = append(os.Environ(), "BUG="+string(bug), "VOLSIM_KEEP=no")
		var output bytes.Buffer
		cmd.Stdout, cmd.Stderr = &output, &output
		start := time.Now()
		err := cmd.Run()
		took := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		if s == live {
			took = time.Since(start)
		}
		times = append(times, took)
		if err == nil {
			continue
		}
		if !strings.Contains(output.String(), "--- FAIL: "+s.test) || strings.Contains(output.String(), "panic:") {
			t.Fatalf("%s with %q: %v\n%s", s.test, bug, err, output.String())
		}
		out.found++
		out.output = output.String()
		if match := regexp.MustCompile(`found in schedule (\d+)`).FindStringSubmatch(out.output); match != nil {
			out.schedule, _ = strconv.Atoi(match[1])
		}
	}
	slices.Sort(times)
	out.took = times[len(times)/2]
	return out
}

// cell returns the cell of the table.
func (r result) cell(s suite) string {
	took := fmt.Sprintf("%.1f s", r.took.Seconds())
	switch {
	case r.found == 0:
		return "no"
	case r.schedule > 0:
		return fmt.Sprintf("**schedule %d**, %s", r.schedule, took)
	case s == live:
		return fmt.Sprintf("%d of %d runs, %s", r.found, r.runs, took)
	default:
		return "yes, " + took
	}
}

// lines returns the number of lines of a file without blank lines, comments, the package clause and
// imports.
func lines(t *testing.T, file string) int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(text), "\n)\n")
	n := 0
	for line := range strings.Lines(code) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			n++
		}
	}
	return n
}

// The suites find the bugs that the table of README.md says. The times are not compared, nor the
// numbers of the schedules, nor what a live run finds by chance.
func TestTable(t *testing.T) {
	if bug != controller.None {
		t.Skip("in a run of a suite")
	}
	if testing.Short() {
		t.Skip("runs all suites with all bugs")
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := lines(t, stepped.file); n > 60 {
		t.Errorf("%s has %d lines", stepped.file, n)
	}
	if *update {
		write(t, string(readme))
		return
	}
	for _, s := range []suite{fakeClient, live, stepped} {
		if want := fmt.Sprintf(" %d ", lines(t, s.file)); !strings.Contains(row(t, string(readme), "Lines"), want) {
			t.Errorf("README.md does not say that %s has%slines; run go test -run Table -update", s.file, want)
		}
	}
	for _, b := range controller.Bugs {
		cells := strings.Split(row(t, string(readme), "`"+string(b)+"`"), "|")
		compare := func(s suite, cell string) {
			t.Helper()
			if r := s.run(t, b, 1); r.found == 1 != (strings.TrimSpace(cell) != "no") {
				t.Errorf("%s with %s: README.md says %q; found: %v\n%s", s.test, b, cell, r.found == 1, r.output)
			} else if r.schedule > 100 {
				t.Errorf("%s with %s: found in schedule %d", s.test, b, r.schedule)
			}
		}
		compare(fakeClient, cells[3])
		if b == controller.ClaimBeforePod { // not by chance
			compare(live, cells[4])
		}
		compare(stepped, cells[5])
	}
}

// row returns the row of the table that begins with a word.
func row(t *testing.T, readme, word string) string {
	t.Helper()
	for line := range strings.Lines(readme) {
		if strings.HasPrefix(line, "| "+word+" |") {
			return line
		}
	}
	t.Fatalf("README.md has no row %s", word)
	return ""
}

// write measures the table again and writes it to README.md.
func write(t *testing.T, readme string) {
	t.Helper()
	var passed [3]string
	var found [3]int
	suites := []suite{fakeClient, live, stepped}
	for i, s := range suites {
		r := s.run(t, controller.None, s.repetitions())
		if r.found > 0 {
			t.Fatalf("%s fails with the correct operator:\n%s", s.test, r.output)
		}
		passed[i] = fmt.Sprintf("%.1f s", r.took.Seconds())
	}
	var rows strings.Builder
	for _, b := range controller.Bugs {
		kind := strings.Split(row(t, readme, "`"+string(b)+"`"), "|")[2]
		fmt.Fprintf(&rows, "| `%s` |%s|", b, kind)
		for i, s := range suites {
			r := s.run(t, b, s.repetitions())
			if r.found > 0 {
				found[i]++
			}
			fmt.Fprintf(&rows, " %s |", r.cell(s))
			t.Logf("%s with %s: %s", s.test, b, r.cell(s))
		}
		rows.WriteString("\n")
	}
	head, rest, _ := strings.Cut(readme, "| --- | --- | --- | --- | --- |\n")
	_, tail, _ := strings.Cut(rest, "\n\n")
	table := fmt.Sprintf("| Lines | | %d | %d | %d |\n", lines(t, fakeClient.file), lines(t, live.file), lines(t, stepped.file)) +
		fmt.Sprintf("| Correct operator | | passes, %s | passes, %s | passes, %s |\n", passed[0], passed[1], passed[2]) +
		rows.String() + fmt.Sprintf("| Bugs found | | %d of 7 | %d of 7 | **%d of 7** |\n", found[0], found[1], found[2])
	if err := os.WriteFile("README.md", []byte(head+"| --- | --- | --- | --- | --- |\n"+table+"\n"+tail), 0o644); err != nil {
		t.Fatal(err)
	}
}
