package csitest

import (
	"errors"
	"testing"
	"time"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim/trace"
)

// TestRepeatedCallsAreOneLine writes a call that fails again and again as two lines.
func TestRepeatedCallsAreOneLine(t *testing.T) {
	t.Parallel()
	var records []trace.Record
	for i := range 23 {
		records = append(records, trace.Record{
			Step: i + 1, At: time.Duration(i) * time.Second, Task: "kubelet(node-1)/x",
			Action:  trace.Action{Kind: trace.KindDriver, Verb: "NodeUnstageVolume", Object: "disk/vol"},
			Outcome: trace.Outcome{Err: errors.New("not staged")},
		})
	}
	records = append(records, trace.Record{Step: 24, Task: "world", Action: trace.Action{Kind: trace.KindEvent, Verb: "crash", Object: "provisioner"}})
	r := &result{records: records}
	lines := r.lines()
	testcheck.Equal(t, "number of lines", 3, len(lines))
	testcheck.Equal(t, "second line", "      22s  the same for the 23rd time", lines[1])
}
