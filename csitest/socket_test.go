package csitest

import (
	"net"
	"path/filepath"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/nodefs"
)

// serve runs a gRPC server at a socket until the end of the test, and returns the socket.
func serve(t *testing.T, name string, register registerFunc) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), name)
	listener := testcheck.Must(net.Listen("unix", socket))
	server, done := grpc.NewServer(), make(chan error, 1)
	register(server)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		testcheck.NoError(t, <-done)
	})
	return "unix://" + socket
}

// TestSockets checks the array in servers at sockets, which mount in a memory of their own: there is nothing to
// find. Then one of them has a defect.
func TestSockets(t *testing.T) {
	t.Parallel()
	disks, script := array.New(array.Config{DriverName: diskDriver}), &Script{}
	d := cluster.Driver{Name: diskDriver, NodeSockets: map[string]string{}}
	d.Socket = serve(t, "controller", func(r grpc.ServiceRegistrar) {
		csispec.RegisterIdentityServer(r, disks.Identity())
		csispec.RegisterControllerServer(r, disks.Controller())
	})
	for _, node := range []string{"node-1", "node-2"} {
		server := disks.Node(node, nodefs.NewMemory("/"+node))
		d.NodeSockets[node] = serve(t, node, script.Services(node, func(r grpc.ServiceRegistrar) {
			csispec.RegisterIdentityServer(r, disks.Identity())
			csispec.RegisterNodeServer(r, server)
		}))
	}
	restarts := map[string]int{}
	target := Target{
		New: func() cluster.Driver { return d }, Devices: cluster.Array, Schedules: -1,
		Restart: func(node string) error { restarts[node]++; return nil },
	}
	check := func() []string {
		c := newChecker(t.Context(), target)
		defer c.sockets.close()
		c.check(func(tr trial) bool { return tr.call.n == 0 || tr.how.kind == lost })
		testcheck.NoError(t, c.err)
		if c.passed < 10 && len(c.findings) == 0 {
			t.Errorf("%d trials passed, want more", c.passed)
		}
		return sentences(c)
	}
	testcheck.Equal(t, "sentences", nil, check())
	testcheck.Equal(t, "restarts", map[string]int{"": 1, "node-1": 1}, map[string]int{"": min(1, restarts[""]), "node-1": min(1, restarts["node-1"])})
	script.On("NodeUnstageVolume", 0, Answer{Code: codes.NotFound})
	testcheck.Equal(t, "sentences", []string{"NodeUnstageVolume fails, with NotFound: NodeUnstageVolume: scripted answer"}, check())
}
