package scheduler

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

// reservations counts what is given back.
type reservations struct {
	framework.Reserver
	returned int
}

func (r *reservations) Unreserve(*framework.Cycle, string) { r.returned++ }

// TestConfirm: when a pod has a node, its reservations become the pod's, unless another scheduler assigned
// it.
func TestConfirm(t *testing.T) {
	for _, test := range []struct {
		name, node string
		left       int // how many plugins had not done PreBind
		returned   int
	}{
		{"as decided", "a", 0, 0},
		{"before PreBind ended", "a", 1, 1},
		{"elsewhere", "b", 0, 1},
	} {
		r := &reservations{}
		c := &Controller{cache: framework.NewCache(), placed: map[types.UID]*placement{}}
		p := &profile{Controller: c, plugins: pluginSet{reservers: []framework.Reserver{r}}}
		pod := aPod("web", 0)
		c.placed[pod.UID] = &placement{profile: p, pod: pod, node: "a", checked: true, left: make([]framework.PreBinder, test.left), reserved: 1}
		pod = pod.DeepCopy()
		pod.Spec.NodeName = test.node
		c.confirm(pod)
		if r.returned != test.returned || len(c.placed) != 0 {
			t.Errorf("%s: %d reservations were returned, want %d; %d placements", test.name, r.returned, test.returned, len(c.placed))
		}
	}
}
