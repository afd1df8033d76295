package main

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/plugins/loop"
)

const want = `bound, capacity 64Mi
on node-1 the file says:
running on node-1
on node-2 the file says:
running on node-1
running on node-2
left: 0
`

func TestLifecycle(t *testing.T) {
	for _, devices := range []cluster.Devices{cluster.Array, cluster.Loop} {
		t.Run(string(devices), func(t *testing.T) {
			if err := loop.Probe(); devices == cluster.Loop && err != nil {
				t.Skipf("loop devices: %v", err)
			}
			var out bytes.Buffer
			if err := run(t.Context(), &out, devices); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, out.String()); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}
