package cluster_test

import (
	"errors"
	"testing"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/loop"
	"github.com/volsim/volsim/sim"
)

// A world without a directory of this machine has none to offer: a test that creates its socket
// below the returned path would create it at the root of the disk.
func TestKubeletDirIsRefusedWithoutADirectory(t *testing.T) {
	tests := []struct {
		name string
		cfg  cluster.Config
		want string
	}{
		{"array", cluster.Config{Devices: cluster.Array}, `cluster: no directory of node-1: devices are "array" ` +
			`(a simulated disk array in memory, as asked), and its disk is in memory; ` +
			`use a live world with devices "loop" or "lvm"`},
		{"stepped array", cluster.Config{Stepped: &sim.SteppedConfig{}}, `cluster: no directory of node-1: devices are "array" ` +
			`(a simulated disk array in memory: the world is stepped), and its disk is in memory; ` +
			`use a live world with devices "loop" or "lvm"`},
		{"stepped loop", cluster.Config{Stepped: &sim.SteppedConfig{}, Devices: cluster.Loop}, `cluster: no directory of ` +
			`node-1: the world is stepped, and no kubelet watches sockets of this machine; use a live world`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := loop.Probe(); err != nil && tt.cfg.Devices == cluster.Loop {
				t.Skipf("loop devices: %v", err)
			}
			tt.cfg.Nodes = 1
			c, err := cluster.New(tt.cfg)
			testcheck.NoError(t, err)
			defer func() { testcheck.NoError(t, c.Close()) }()
			dir, err := c.KubeletDir("node-1")
			if dir != "" || err == nil || err.Error() != tt.want {
				t.Errorf("got %q, %v\nwant %s", dir, err, tt.want)
			}
			if _, err := c.KubeletDir("node-9"); !errors.Is(err, cluster.ErrUnknownComponent) {
				t.Errorf("got %v of an unknown node", err)
			}
		})
	}
}
