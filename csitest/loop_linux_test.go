package csitest

import (
	"path/filepath"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/loop"
	"github.com/volsim/volsim/plugins/nodefs"
)

// TestLoop checks a driver on loop devices, with real mounts, in stepped and in live worlds: there is nothing to
// find.
func TestLoop(t *testing.T) {
	if err := loop.Probe(); err != nil {
		t.Skipf("loop devices: %v", err)
	}
	devices := testcheck.Must(loop.New(loop.Config{DriverName: diskDriver, Dir: filepath.Join(t.TempDir(), "images")}))
	defer func() { testcheck.NoError(t, devices.Close()) }()
	d := cluster.Driver{
		Name: diskDriver,
		Controller: func(cluster.DriverNode) (func(grpc.ServiceRegistrar), error) {
			return func(r grpc.ServiceRegistrar) {
				csispec.RegisterIdentityServer(r, devices.Identity())
				csispec.RegisterControllerServer(r, devices.Controller())
			}, nil
		},
		Node: func(at cluster.DriverNode) (func(grpc.ServiceRegistrar), error) {
			server := devices.Node(at.Name, at.Disk.(*nodefs.Real))
			return func(r grpc.ServiceRegistrar) {
				csispec.RegisterIdentityServer(r, devices.Identity())
				csispec.RegisterNodeServer(r, server)
			}, nil
		},
	}
	for _, live := range []bool{false, true} {
		c := newChecker(t.Context(), Target{New: func() cluster.Driver { return d }, Devices: cluster.Loop, Live: live, Schedules: -1})
		c.check(func(tr trial) bool {
			return tr.story.name == probeStory && (tr.call.n == 0 || tr.how.kind == lost && tr.call.rpc != "CreateVolume")
		})
		testcheck.NoError(t, c.err)
		testcheck.Equal(t, "sentences", nil, sentences(c))
		testcheck.Equal(t, "passed trials", 8, c.passed)
	}
}
