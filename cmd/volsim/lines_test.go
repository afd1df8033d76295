package main

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/volsim/volsim/sim/trace"
)

func TestLinesAreShortened(t *testing.T) {
	long := strings.Repeat("a", 200_000)
	for text, want := range map[string]string{
		"":                                "",
		"plain\ttext, ünïcode":            "plain\ttext, ünïcode",
		"one\ntwo\r\x1b[31mred":           `one\ntwo\r\x1b[31mred`,
		"one\u2028two":                    `one\u2028two`,
		long:                              long[:lineBytesMax] + "… (191808 bytes more)",
		long[:lineBytesMax-1] + "é" + "b": long[:lineBytesMax-1] + "… (3 bytes more)",
	} {
		got := oneLine(text)
		if got != want || !utf8.ValidString(got) {
			t.Errorf("%.40q: got %d bytes, %.60q…%q, want %d bytes", text, len(got), got, got[max(0, len(got)-40):], len(want))
		}
	}
}

// TestOutputHasOneLineForEachMessage prints texts of another writer.
func TestOutputHasOneLineForEachMessage(t *testing.T) {
	long := "a\n" + strings.Repeat("b", 200_000)
	var out, errs strings.Builder
	p := newPrinter(&out, &errs, false)
	p.info("%s", long)
	p.warn("%s", long)
	p.record(trace.Record{Step: 1, Task: "a", Action: trace.Action{Kind: trace.KindDriver, Verb: "x", Object: long}, Outcome: trace.Outcome{Err: errors.New(long)}})
	p.close()
	var logged strings.Builder
	log := (&driverOptions{}).logger(&logged)
	log.Info(long, "text", long, "error", errors.New(long), "number", 1)
	var told strings.Builder
	n := newNarrator(t.Context(), &told, false, false)
	n.note("process", long)
	n.close()
	for name, c := range map[string]struct {
		text  string
		lines int
		most  int
	}{
		"standard output": {out.String(), 1, lineBytesMax + 100},
		"standard error":  {errs.String(), 2, lineBytesMax + 100},
		"log":             {logged.String(), 1, 3*lineBytesMax + 300},
		"demo":            {strings.ReplaceAll(told.String(), "\n   ", ""), 1, lineBytesMax + 200}, // wrapped
	} {
		if got := strings.Count(c.text, "\n"); got != c.lines {
			t.Errorf("%s: %d lines, want %d", name, got, c.lines)
		}
		for line := range strings.Lines(c.text) {
			if len(line) > c.most || !strings.Contains(line, "bytes more)") {
				t.Errorf("%s: line of %d bytes: %.100s", name, len(line), line)
			}
		}
	}
}

// TestDriverShortensTextsOfCallers calls a driver with long texts.
func TestDriverShortensTextsOfCallers(t *testing.T) {
	p := startDriver(t, socketIn(t.TempDir()), "array", "--verbose")
	_, err := csi.NewControllerClient(p.conn).DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: strings.Repeat("v", 200_000)})
	if err == nil {
		t.Error("an ID of 200,000 bytes was accepted")
	}
	p.waitFor("method=DeleteVolume")
	p.stop()
	for line := range strings.Lines(p.log.String()) {
		if len(line) > 3*lineBytesMax {
			t.Errorf("line of %d bytes: %.100s", len(line), line)
		}
	}
}
