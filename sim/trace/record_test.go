package trace_test

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/sim/trace"
)

func TestLineOfARecord(t *testing.T) {
	t.Parallel()
	bound := &corev1.PersistentVolumeClaim{Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}}
	action := trace.Action{Kind: trace.KindAPI, Verb: "update", Object: "persistentvolumeclaims/default/data"}
	tests := []struct {
		name   string
		record trace.Record
		want   string
	}{
		{
			"detail",
			trace.Record{Step: 3, At: 1500 * time.Millisecond, Task: "a/b", Action: action, Outcome: trace.Outcome{Detail: "rv=7"}},
			"3\t1.5s\ta/b\tapi update persistentvolumeclaims/default/data\trv=7",
		},
		{
			"detail and change",
			trace.Record{Task: "a", Action: action, Outcome: trace.Outcome{Detail: "rv=7", After: bound}},
			"0\t0s\ta\tapi update persistentvolumeclaims/default/data\trv=7 phase=Bound",
		},
		{
			"change alone",
			trace.Record{Task: "a", Action: action, Outcome: trace.Outcome{After: bound}},
			"0\t0s\ta\tapi update persistentvolumeclaims/default/data\tphase=Bound",
		},
		{
			"gone",
			trace.Record{Task: "a", Action: action, Outcome: trace.Outcome{Before: bound, After: bound, Gone: true}},
			"0\t0s\ta\tapi update persistentvolumeclaims/default/data\tgone",
		},
		{
			"error",
			trace.Record{Task: "a", Action: action, Outcome: trace.Outcome{Err: errors.New("no\nway"), Detail: "rv=7", After: bound}},
			"0\t0s\ta\tapi update persistentvolumeclaims/default/data\terror: no way",
		},
		{
			"no object",
			trace.Record{Task: "a", Action: trace.Action{Kind: trace.KindTimer, Verb: "fire"}},
			"0\t0s\ta\ttimer fire\t",
		},
		{
			"separators within",
			trace.Record{Task: "a\tb\r\nc", Action: trace.Action{Kind: "work", Verb: "sync", Object: "x\ty"}, Outcome: trace.Outcome{Detail: "1\n2\t3"}},
			"0\t0s\ta b  c\twork sync x y\t1 2 3",
		},
		{
			"the real duration is left out",
			trace.Record{Task: "a", Action: trace.Action{Kind: "work", Verb: "sync"}, Took: time.Second},
			"0\t0s\ta\twork sync\t",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, tt.record.String()); diff != "" {
				t.Errorf("line (-want +got):\n%s", diff)
			}
			if got, want := tt.record.Failed(), tt.record.Err != nil; got != want {
				t.Errorf("Failed() = %v, want %v", got, want)
			}
		})
	}
}

// odd draws strings with whatever could disturb a line of text.
func odd() *rapid.Generator[string] {
	pieces := rapid.SampledFrom([]string{"\t", "\n", "\r", "\r\n", " ", "", ": ", "error: ", "\x00", "\xff", "\u2028", "default/data", "^"})
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.OneOf(pieces, rapid.String()), 0, 6).Draw(t, "pieces"), "")
	})
}

func anyRecord() *rapid.Generator[trace.Record] {
	return rapid.Custom(func(t *rapid.T) trace.Record {
		r := trace.Record{
			Step: rapid.Int().Draw(t, "step"),
			At:   time.Duration(rapid.Int64().Draw(t, "at")),
			Task: odd().Draw(t, "actor"),
			Action: trace.Action{
				Kind:   trace.Kind(rapid.StringMatching(`[a-z]{0,8}`).Draw(t, "kind")),
				Verb:   rapid.StringMatching(`[A-Za-z/]{0,20}`).Draw(t, "verb"),
				Object: odd().Draw(t, "object"),
			},
			Outcome: trace.Outcome{Detail: odd().Draw(t, "detail"), Gone: rapid.Bool().Draw(t, "gone")},
		}
		if rapid.Bool().Draw(t, "fails") {
			r.Err = errors.New(odd().Draw(t, "error"))
		}
		return r
	})
}

func TestTextOfAnyRecordParsesBackToItself(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := anyRecord().Draw(t, "record")
		text := r.String()
		if strings.ContainsAny(text, "\n\r") || strings.Count(text, "\t") != 4 {
			t.Fatalf("%q is not one line of five fields", text)
		}
		line, err := trace.ParseLine(text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(text, line.String()); diff != "" {
			t.Errorf("line of %+v (-written +read and written):\n%s", r, diff)
		}
		type known struct {
			step       int
			at         time.Duration
			kind, verb string
		}
		want := known{r.Step, r.At, string(r.Kind), r.Verb}
		got := known{line.Step, line.At, string(line.Action.Kind), line.Action.Verb}
		if got != want {
			t.Errorf("read back %+v, want %+v", got, want)
		}
	})
}

func TestTextOfALogParsesBackToItself(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var log trace.Log
		records := rapid.SliceOfN(anyRecord(), 0, 10).Draw(t, "records")
		for _, r := range records {
			log.Append(r)
		}
		lines, err := trace.Parse(log.Text())
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for i, l := range lines {
			if l.Step != i+1 {
				t.Errorf("line %d is step %d", i+1, l.Step)
			}
			fmt.Fprintln(&text, l)
		}
		if diff := cmp.Diff(log.Text(), text.String()); diff != "" {
			t.Errorf("log (-written +read and written):\n%s", diff)
		}
		if len(lines) != len(records) {
			t.Errorf("%d lines for %d records", len(lines), len(records))
		}
	})
}

func TestParseLineKeepsWhatStandsInTheFields(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text string
		want trace.Line
	}{
		{
			"12\t-2562047h47m16.854775808s\tkubelet(node-1)/pods\tapi get pods/default/a\t",
			trace.Line{
				Step: 12, At: math.MinInt64, Task: "kubelet(node-1)/pods",
				Action: trace.Action{Kind: trace.KindAPI, Verb: "get", Object: "pods/default/a"},
			},
		},
		{
			"1\t0s\t\twork sync two words\ta\tb", // what comes after the fourth tab is the result
			trace.Line{Step: 1, Action: trace.Action{Kind: trace.KindWork, Verb: "sync", Object: "two words"}, Result: "a\tb"},
		},
	}
	for _, tt := range tests {
		got, err := trace.ParseLine(tt.text)
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.text, diff)
		}
		if diff := cmp.Diff(tt.text, got.String()); diff != "" {
			t.Errorf("written again (-want +got):\n%s", diff)
		}
	}
}

func TestParseLineErrors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		is         error // nil: any
	}{
		{"empty", "", nil},
		{"four fields", "1\t0s\ta\twork sync", nil},
		{"step is a word", "one\t0s\ta\twork sync\t", strconv.ErrSyntax},
		{"step is out of range", "99999999999999999999\t0s\ta\twork sync\t", strconv.ErrRange},
		{"time without a unit", "1\t5\ta\twork sync\t", nil},
		{"time is a word", "1\tnoon\ta\twork sync\t", nil},
		{"action without a verb", "1\t0s\ta\twork\t", nil},
		{"action is empty", "1\t0s\ta\t\t", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := trace.ParseLine(tt.text)
			if err == nil || tt.is != nil && !errors.Is(err, tt.is) {
				t.Fatalf("error %v, want %v", err, tt.is)
			}
			if !strings.Contains(err.Error(), strconv.Quote(tt.text)) {
				t.Errorf("error %q does not name the line", err)
			}
			if got != (trace.Line{}) {
				t.Errorf("line %+v beside the error", got)
			}
			const good = "1\t0s\ta\twork sync\t\n"
			lines, parseErr := trace.Parse(good + tt.text + "\n" + "worse\n")
			if parseErr == nil || parseErr.Error() != err.Error() || lines != nil {
				t.Errorf("Parse gives %v and %v, want the error of the first bad line: %v", lines, parseErr, err)
			}
		})
	}
}
