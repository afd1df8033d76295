package cluster_test

import (
	"strings"
	"testing"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/sim"
)

// TestFaultSpecOfAnUnknownTarget checks that the error lists the existing targets.
func TestFaultSpecOfAnUnknownTarget(t *testing.T) {
	t.Parallel()
	c, err := cluster.New(cluster.Config{Nodes: 1, Components: []string{"pvcontroller", "kubelet"}, Stepped: &sim.SteppedConfig{}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	tests := []struct{ risks, want string }{
		{"crash(1), crash(pvcontroller, 1), crash(kubelet(node-1) with pods 1 behind, 1), stop(driver(node-1), 0.1)", ""},
		{"relist(pvcontroller persistentvolumes, 0.1), expire(pods, 0.1), reboot(node-1, 1), tick(0.1), retire(pvcontroller#2, 1)", ""},
		{"conflict(kubelet, 0.1), lost(pvcontroller/claims, 0.1), refused(patch, 0.1), driver Unavailable(NodeStage, 0.1)", ""},
		{"crash(kubelet, 1)", "fault crash(kubelet, 1): no such target \"kubelet\" (have pvcontroller, kubelet(node-1)"},
		{"crash(attacher, 1), replicate(resizer, 1)", ""}, // components of other worlds
		{"crash(attach, 1)", "no such target \"attach\" "},
		{"start(driver(node-2), 1)", "(have pvcontroller, kubelet(node-1), driver(node-1)"},
		{"partition(kubelet(node-1), 1)", "no such target \"kubelet(node-1)\" (have node-1"},
		{"expire(pod, 0.1)", "no such target \"pod\" (have "},
		{"hang(NodeStgae, 0.1)", "no such target \"NodeStgae\" (have BindDevice, "},
		{"driver Internal(Recycle, 1), driver-lost Internal(NodePublishVolume, 1), hang(BindDevice, 1)", ""},
		{"driver Unavailable(ExtenderFilter, 0.1), driver-lost Internal(ExtenderBind, 1), hang(ExtenderP, 0.1)", ""},
		{"conflict(kublet, 0.1)", "no such target \"kublet\" (have pvcontroller, kubelet(node-1), get, "},
	}
	for _, tt := range tests {
		risks, err := sim.ParseFaultSpecs(tt.risks)
		if err != nil {
			t.Fatal(err)
		}
		err = c.ValidateFaults(risks)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: error %v, want %q", tt.risks, err, tt.want)
		}
	}
}
