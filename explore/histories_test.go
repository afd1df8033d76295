package explore_test

import (
	"strings"
	"testing"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/testcheck"
)

// TestHistoriesDoNotRepeat runs upstream's defects of attaching and mounting as scenarios; none may
// fail here.
func TestHistoriesDoNotRepeat(t *testing.T) {
	testcheck.Stepped(t)
	for _, tt := range []struct {
		name     string
		history  string // numbers of issues
		scenario string
		config   explore.Config
	}{
		{
			"the kubelet is down, its volumes are detached in time", "#65392",
			nodeComponents + partitioned, holds,
		},
		{
			"a kubelet restarts at any call",
			"#60987, #31596, #38498, PR #37698, PR #102576, #96635, #70044, PR #110670",
			nodeComponents + once("kubelet(node-1)", "crash") + moves, restarts,
		},
		{
			"a kubelet restarts, and repeated mounts fail", "#120150, #121271, PR #139045",
			nodeComponents + once("Node", "driver Internal", "driver DeadlineExceeded", "driver-lost DeadlineExceeded",
				"hang") + republished, faults,
		},
		{
			"a node reboots at any step", "#120853, #117513",
			nodeComponents + once("node-1", "reboot") + comesBack, faults,
		},
		{
			"the attach/detach controller restarts at any call", "#34242, #77324, PR #96617, #92145, #120571, #141151",
			nodeComponents + once("attachdetach", "crash") + moves, restarts,
		},
		{
			"an attach fails or times out, and the pod moves to another node", "#71276, PR #124334, PR #120595",
			nodeComponents + once("ControllerPublishVolume", "driver Unavailable",
				"driver-lost DeadlineExceeded", "hang") + moves, faults,
		},
		{
			"an attach fails, and the pod is deleted meanwhile", "#117042",
			nodeComponents + once("ControllerPublishVolume", "driver Internal",
				"driver-lost DeadlineExceeded", "hang") + endsAtOnce, faults,
		},
		{
			"a detach fails, and the volume is wanted again meanwhile", "#32727, #109951",
			nodeComponents + once("ControllerUnpublishVolume", "driver Internal",
				"driver-lost DeadlineExceeded", "hang") + comesBack, faults,
		},
		{
			"a mount or an unmount fails or times out, and the pod is deleted meanwhile", "#127520, #65246",
			nodeComponents + once("Node", "driver DeadlineExceeded", "driver-lost DeadlineExceeded", "hang",
				"driver Internal") + endsAtOnce, faults,
		},
		{
			"an unmount fails or times out", "#86360, #89112",
			nodeComponents + once("NodeUn", "driver Internal", "driver DeadlineExceeded",
				"driver-lost DeadlineExceeded", "hang") + comesBack, faults,
		},
		{
			"two pods with one claim are scheduled before its volume is provisioned", "#72013, #73216, #56596",
			placeComponents + "ends: differ\n" + late + "user bob\n  create pod other data\n", holds, // on one node or on two
		},
		{
			"writing a scheduling decision fails", "#73263, #73305",
			placeComponents + once("scheduler", "conflict", "refused", "lost") + late, faults,
		},
		{
			"the scheduler restarts at any call", "#65131",
			placeComponents + once("scheduler", "crash") + late, restarts,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, err := scenario.Parse(tt.name, tt.scenario)
			if err != nil {
				t.Fatal(err)
			}
			r, err := explore.Search(t.Context(), s, tt.config)
			if err != nil {
				t.Fatal(err)
			}
			if f := r.Failure; f != nil {
				t.Fatalf("%v\nunder %s", f, f.Scenario.Schedule)
			}
			if r.Complete == "" || r.Schedules < 2 {
				t.Errorf("%d schedules, %q: want all of them", r.Schedules, r.Complete)
			}
		})
	}
}

// once returns a header: each of the faults may happen once, to calls or components with the given
// prefix.
func once(of string, faults ...string) string {
	specs := make([]string, len(faults))
	for i, f := range faults {
		specs[i] = f + "(" + of + ", 1)"
	}
	return "faults: " + strings.Join(specs, ", ") + "\n"
}

// partitioned is a pod on a partitioned node, and another pod with its claim on the other node.
const partitioned = `
user alice
  create claim data 1Gi
  create pod web data on=node-1
  wait pod web Running
  let partition node-1
  delete pod web now=true
  create pod next data on=node-2
`
