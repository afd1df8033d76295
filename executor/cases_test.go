package executor_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/executor"
)

// step is a line of a case.
type step struct {
	line  int
	words []string
	want  string
}

// TestCases runs each case of testdata/cases; its README describes the format.
func TestCases(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("testdata", "cases", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("cases: %v, %v", files, err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range casesOf(t, file, string(text)) {
			if seen[c.id] {
				t.Errorf("%s: duplicate case %s", file, c.id)
			}
			seen[c.id] = true
			t.Run(c.id, func(t *testing.T) {
				t.Parallel()
				run := &caseRun{bench: newBench(), jobs: map[string]*job{}}
				defer run.host.Close()
				for _, s := range c.steps {
					if got := run.step(t, s.words); got != s.want {
						t.Fatalf("%s:%d: %s -> %s, want %s\n%s", file, s.line,
							strings.Join(s.words, " "), got, s.want, run.x)
					}
				}
			})
		}
	}
}

type history struct {
	id    string
	steps []step
}

// casesOf parses a file, without the steps for upstream only.
func casesOf(t *testing.T, file, text string) []history {
	t.Helper()
	var cases []history
	for i, line := range strings.Split(text, "\n") {
		id, header := strings.CutPrefix(line, "=== ")
		switch {
		case header:
			cases = append(cases, history{id: id})
		case strings.TrimSpace(line) == "", strings.HasPrefix(line, "#"), strings.HasPrefix(line, "upstream "):
		case len(cases) == 0:
			t.Fatalf("%s:%d: a step outside of a case", file, i+1)
		default:
			what, want, _ := strings.Cut(strings.TrimPrefix(line, "ours "), " -> ")
			c := &cases[len(cases)-1]
			c.steps = append(c.steps, step{line: i + 1, words: strings.Fields(what), want: want})
		}
	}
	return cases
}

// caseRun is the run of a case.
type caseRun struct {
	*bench
	jobs map[string]*job
}

// errPanic makes an operation panic.
var errPanic = errors.New("panic")

// step executes a line and returns its result.
func (r *caseRun) step(t *testing.T, words []string) string {
	t.Helper()
	switch verb, args := words[0], words[1:]; verb {
	case "start":
		j, err := r.start(keyOf(t, args[2:]), args[1])
		r.jobs[args[0]] = j
		return outcomeText(err)
	case "end":
		r.end(r.jobs[args[0]], nil)
	case "fail":
		r.end(r.jobs[args[0]], errBroken)
	case "panic":
		r.end(r.jobs[args[0]], errPanic)
	case "check":
		return outcomeText(r.x.Check(keyOf(t, args[1:]), args[0]))
	case "busy":
		return map[bool]string{true: "yes", false: "no"}[r.x.Pending(keyOf(t, args))]
	case "pass":
		d, err := time.ParseDuration(args[0])
		if err != nil {
			t.Fatal(err)
		}
		r.pass(d)
	case "wait":
		return r.waits()
	default:
		t.Fatalf("unknown step %q", strings.Join(words, " "))
	}
	return ""
}

// waits returns whether a task that waits for all operations continues.
func (r *caseRun) waits() string {
	got := "hangs"
	r.c.Spawn("wait", func(context.Context) {
		if r.x.Wait(time.Nanosecond) {
			got = "ends"
		}
	})
	r.settle()
	return got
}

// outcomeText returns an outcome as text.
func outcomeText(err error) string {
	var backoff *executor.BackoffError
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, executor.ErrPending):
		return "pending"
	case errors.As(err, &backoff):
		return fmt.Sprintf("back-off %v", backoff.Remaining)
	default:
		return err.Error()
	}
}

func keyOf(t *testing.T, words []string) executor.Key {
	t.Helper()
	if words[0] == "none" {
		return executor.Key{}
	}
	key := executor.Key{Volume: corev1.UniqueVolumeName(words[0])}
	for _, word := range words[1:] {
		switch name, value, _ := strings.Cut(word, "="); name {
		case "pod":
			key.Pod = types.UID(value)
		case "node":
			key.Node = types.NodeName(value)
		default:
			t.Fatalf("unknown outcome %q", word)
		}
	}
	return key
}
