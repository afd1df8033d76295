package simtest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
	"github.com/volsim/volsim/sim/trace/picture"
)

// liveLimit bounds the waits of this package in a live world, on the wall clock. A stepped world needs
// no limit: its waits end when nothing more can happen.
const liveLimit = time.Minute

// Bounds of what a failed test shows.
const (
	startStoryMax   = 150 // lines
	startPictureMax = 500 // last records in the picture
)

// Start returns a running cluster, live or stepped, that is closed when the test ends. An error ends
// the test. So does, at the end, a mount, device, process or file that Close could not remove.
// Objects that the test leaves in the API server are no error: see cluster.Cluster.Leaks.
//
// A failed test logs its story: what each component and user did after the start, without reads. With
// the flag -artifacts of go test it also writes a picture of it to a file, whose path is logged. See
// testing.T.ArtifactDir for where. Without the flag, or if VOLSIM_KEEP is "no", no file survives the
// test.
func Start(t testing.TB, cfg cluster.Config) *cluster.Cluster {
	t.Helper()
	c, err := cluster.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	started := 0
	t.Cleanup(func() {
		t.Helper()
		records := c.Trace().Records()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			logStory(t, records, started)
		}
	})
	ctx, cancel := limited(t, c)
	defer cancel()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	started = c.Trace().Steps()
	return c
}

// limited returns the context of a test's wait.
func limited(t testing.TB, c *cluster.Cluster) (context.Context, context.CancelFunc) {
	if _, stepped := c.Host().(*sim.Stepped); stepped {
		return context.WithCancel(t.Context())
	}
	return context.WithTimeout(t.Context(), liveLimit)
}

// logStory logs what happened after a step of the trace, and where the picture of it is.
func logStory(t testing.TB, records []trace.Record, after int) {
	t.Helper()
	if story := startStory(records, after); story != "" {
		t.Logf("what happened after the start (step, time, action):\n%s", story)
	}
	artifacts := flag.Lookup("test.artifacts")
	switch {
	case artifacts == nil || artifacts.Value.String() != "true":
		t.Logf("picture: not written; run go test with -artifacts")
	case os.Getenv(keepVariable) == "no":
		t.Logf("picture: not written, as %s is no", keepVariable)
	default:
		file := filepath.Join(t.ArtifactDir(), "picture.svg")
		drawing := picture.SpaceTime(records, picture.Options{Title: t.Name(), After: after, Latest: startPictureMax})
		if err := os.WriteFile(file, drawing.SVG(), 0o644); err != nil {
			t.Logf("picture: %v", err)
			return
		}
		t.Logf("picture: %s", file)
	}
}

// startStory returns a line for each write, failed request, driver call and event after a step of the
// trace. The middle of a long story is omitted.
func startStory(records []trace.Record, after int) string {
	var lines []string
	for i := range records {
		if r := &records[i]; r.Step > after && isTold(r) {
			lines = append(lines, fmt.Sprintf("%5d %9s  %s", r.Step, r.At.Round(time.Millisecond), describe(r)))
		}
	}
	if more := len(lines) - startStoryMax; more > 0 {
		omitted := fmt.Sprintf("      … %d lines omitted …", more)
		lines = slices.Concat(lines[:startStoryMax/2], []string{omitted}, lines[startStoryMax/2+more:])
	}
	return trace.Abbreviate(strings.Join(lines, "\n"))
}

// isTold reports whether the story has a record.
func isTold(r *trace.Record) bool {
	switch r.Kind {
	case trace.KindEvent:
		return true
	case trace.KindDriver:
		_, told := trace.Describe(*r)
		return told || r.Err != nil
	case trace.KindWork:
		return r.Err != nil // of a reconciler
	case trace.KindAPI:
		verb, _, _ := strings.Cut(r.Verb, "/")
		reads := verb == "get" || verb == "list" || verb == "watch"
		return r.Err != nil && !reads || r.Before != nil || r.After != nil && !reads
	default:
		return false
	}
}

// describe returns what a process did, in words. Of an Event it returns the reason and the message.
func describe(r *trace.Record) string {
	if r.Kind == trace.KindEvent {
		return ">> " + trace.DescribeEvent(r.Verb, r.Object)
	}
	event, is := r.After.(*corev1.Event)
	words := ""
	switch {
	case is:
		about := &event.InvolvedObject
		words = fmt.Sprintf("reports %s of %s %s: %s", event.Reason, strings.ToLower(about.Kind),
			strings.TrimPrefix(about.Namespace+"/"+about.Name, "/"), event.Message)
	case r.Kind == trace.KindWork && r.Verb == "fail":
		words = fmt.Sprintf("cannot reconcile %s, and will retry: %v", r.Object, r.Err)
	case r.Kind == trace.KindWork:
		words = r.Err.Error() // a panic
	default:
		words = trace.DescribeAny(*r)
	}
	return trace.Process(r.Task) + " " + words
}
