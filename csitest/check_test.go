package csitest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
)

// TestArray checks the array: there is nothing to find.
func TestArray(t *testing.T) {
	t.Parallel()
	Check(t, Target{New: brokenArray(nil), Block: true})
}

// TestNodeIDs checks the array under IDs of nodes that are not their names: there is nothing to find.
func TestNodeIDs(t *testing.T) {
	t.Parallel()
	c := newChecker(t.Context(), Target{New: brokenArray(func(at cluster.DriverNode, _ *brokenState) defect {
		return func(ctx context.Context, _ string, request proto.Message, next nextFunc) (any, error) {
			switch r := request.(type) {
			case *csispec.ControllerPublishVolumeRequest:
				r.NodeId = strings.TrimPrefix(r.GetNodeId(), "id-of-")
			case *csispec.ControllerUnpublishVolumeRequest:
				r.NodeId = strings.TrimPrefix(r.GetNodeId(), "id-of-")
			}
			response, err := next(ctx)
			if info, ok := response.(*csispec.NodeGetInfoResponse); ok {
				info.NodeId = "id-of-" + info.GetNodeId()
			}
			return response, err
		}
	})})
	c.check(func(tr trial) bool { return tr.seed > 0 || tr.call.n == 0 })
	testcheck.NoError(t, c.err)
	testcheck.Equal(t, "sentences", nil, sentences(c))
}

// A recorder is a test whose errors are expected.
type recorder struct {
	testing.TB
	errors, logs []string
}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, a ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, a...))
}
func (r *recorder) Error(a ...any)               { r.errors = append(r.errors, fmt.Sprint(a...)) }
func (r *recorder) Logf(format string, a ...any) { r.logs = append(r.logs, fmt.Sprintf(format, a...)) }

// TestReport checks a driver with a defect of which many trials suffer: it is reported once, with the trial that
// shows it, which shows the same when it is run alone.
func TestReport(t *testing.T) {
	t.Parallel()
	target := Target{New: brokenArray(failsOnRepeat("NodeUnstageVolume", codes.NotFound, "the volume is not staged")), Schedules: -1}
	all, c := &recorder{TB: t}, newChecker(t.Context(), target)
	c.check(func(tr trial) bool { return tr.call.n == 0 || strings.HasPrefix(tr.call.rpc, "Node") })
	c.report(all)
	if len(all.errors) != 1 {
		t.Fatalf("%d errors, want 1:\n%s", len(all.errors), strings.Join(all.errors, "\n"))
	}
	target.Trial = "life/NodeUnstageVolume#1/lost Unavailable"
	for _, part := range []string{
		"NodeUnstageVolume is not idempotent: the second call after a lost response fails with NotFound: the volume is not staged\n",
		fmt.Sprintf("Target.Trial: %q runs this trial alone\n", target.Trial),
		"schedule: ", " driver-lost Unavailable: kubelet(node-1)/",
	} {
		if !strings.Contains(all.errors[0], part) {
			t.Errorf("no %q in\n%s", part, all.errors[0])
		}
	}
	alone := &recorder{TB: t}
	Check(alone, target)
	testcheck.Equal(t, "the trial alone", all.errors, alone.errors)
}

// TestDrawnSchedules finds a defect by drawn schedules alone.
func TestDrawnSchedules(t *testing.T) {
	t.Parallel()
	c := newChecker(t.Context(), Target{New: brokenArray(failsOnRepeat("NodePublishVolume", codes.Internal, "the path is a mount point"))})
	c.check(func(tr trial) bool { return tr.seed > 0 && len(c.findings) == 0 })
	testcheck.NoError(t, c.err)
	if got := sentences(c); len(got) != 1 || !strings.HasPrefix(got[0], "NodePublishVolume is not idempotent: the second call after ") {
		t.Errorf("sentences %q", got)
	}
}

// TestLive finds a defect in live worlds, and nothing in a correct driver.
func TestLive(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		breaks breaker
		want   []string
	}{
		{nil, nil},
		{failsOnRepeat("NodeUnstageVolume", codes.NotFound, "the volume is not staged"), []string{
			"NodeUnstageVolume is not idempotent: the second call after a lost response fails with NotFound: the volume is not staged",
		}},
	} {
		c := newChecker(t.Context(), Target{New: brokenArray(tt.breaks), Live: true})
		c.check(func(tr trial) bool {
			return tr.story.name == probeStory && (tr.call.n == 0 || tr.call.rpc == "NodeUnstageVolume")
		})
		testcheck.NoError(t, c.err)
		testcheck.Equal(t, "sentences", tt.want, sentences(c))
		testcheck.Equal(t, "passed trials", 5-len(tt.want), c.passed)
	}
}

// TestCallThatNeverReturns checks a driver that ignores the end of its context: nothing else can be tried.
func TestCallThatNeverReturns(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	all := &recorder{TB: t}
	// Long enough for the calls before it, on a slow machine, too.
	Check(all, Target{Timeout: time.Second, New: brokenArray(always("NodeUnstageVolume", func(
		ctx context.Context, _ cluster.DriverNode, _ *brokenState, _ proto.Message, next nextFunc,
	) (any, error) {
		<-release
		return next(ctx)
	}))})
	testcheck.Equal(t, "errors", []string{
		"NodeUnstageVolume does not return, although its context ended 1s after the call, and 2s ago: nothing else was tried",
	}, all.errors)
}

// TestUnusableTargets checks targets that cannot be checked.
func TestUnusableTargets(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		target Target
		want   string
	}{
		{Target{}, "a target without New"},
		{
			Target{New: func() cluster.Driver { return cluster.Driver{Name: diskDriver} }},
			"driver disk.example.com has no controller service in this program or at a socket",
		},
		{
			Target{New: brokenArray(nil), Trial: "life/NodeStageVolume"},
			`trial "life/NodeStageVolume": want STORY, STORY/RPC#N/DISTURBANCE or drawn/SEED`,
		},
		{Target{New: brokenArray(nil), Nodes: 3}, "a target with 3 nodes: want 1 or 2"},
		{Target{New: brokenArray(nil), Trial: "death"}, `trial "death": no story "death"`},
	} {
		all := &recorder{TB: t}
		Check(all, tt.target)
		testcheck.Equal(t, "errors", []string{tt.want}, all.errors)
	}
}
