package trace_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim/trace"
)

// TestSometimes checks what a log notes of conditions.
func TestSometimes(t *testing.T) {
	log := &trace.Log{}
	ctx, cancel := context.WithCancel(trace.NewContext(t.Context(), log))
	defer cancel()
	trace.Sometimes(ctx, "late", false)
	trace.Sometimes(ctx, "late", true)
	trace.Sometimes(ctx, "empty", false)
	trace.Reachable(ctx, "the end")
	log.Sometimes("late", true)
	trace.Reachable(t.Context(), "elsewhere") // without a log
	testcheck.Equal(t, "conditions", "[{empty 1 0} {late 3 2} {the end 1 1}]", fmt.Sprint(log.Conditions()))
	testcheck.Equal(t, "text", "", log.Text())
	log.Reset()
	testcheck.Equal(t, "of another world", "[]", fmt.Sprint(log.Conditions()))
}
