package cluster_test

import (
	"slices"
	"strings"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/sim"
)

// TestLeakedSnapshotIsListed creates a snapshot without any object: it has the time of the world, and is a leak.
func TestLeakedSnapshotIsListed(t *testing.T) {
	c, err := cluster.New(cluster.Config{Stepped: &sim.SteppedConfig{}})
	testcheck.NoError(t, err)
	defer c.Close()
	testcheck.NoError(t, c.Start(t.Context()), c.Run(t.Context()))
	volume, err := c.Controller().CreateVolume(t.Context(), &csispec.CreateVolumeRequest{
		Name: "v", VolumeCapabilities: []*csispec.VolumeCapability{{
			AccessType: &csispec.VolumeCapability_Mount{Mount: &csispec.VolumeCapability_MountVolume{}},
			AccessMode: &csispec.VolumeCapability_AccessMode{Mode: csispec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		}},
	})
	testcheck.NoError(t, err)
	id := volume.GetVolume().GetVolumeId()
	made, err := c.Controller().CreateSnapshot(t.Context(),
		&csispec.CreateSnapshotRequest{Name: "s", SourceVolumeId: id})
	testcheck.NoError(t, err)
	if got := made.GetSnapshot().GetCreationTime().AsTime(); !got.Equal(c.Host().Now()) {
		t.Errorf("created at %v, the world is at %v", got, c.Host().Now())
	}
	_, err = c.Controller().DeleteVolume(t.Context(), &csispec.DeleteVolumeRequest{VolumeId: id})
	testcheck.NoError(t, err)
	leaks, err := c.Leaks()
	testcheck.NoError(t, err)
	leaks = slices.DeleteFunc(leaks, func(leak string) bool { return !strings.Contains(leak, "snapshot") })
	want := []string{"snapshot " + made.GetSnapshot().GetSnapshotId() + " (s) of " + id + " on the array"}
	testcheck.Equal(t, "leaks", want, leaks)
}

// TestLeakedSnapshotOfAnotherDriverIsListed asks a driver of the user's own for its snapshots.
func TestLeakedSnapshotOfAnotherDriverIsListed(t *testing.T) {
	devices := array.New(array.Config{})
	c := start(t, cluster.Config{
		Nodes: 1, Devices: cluster.Array, WithoutDriver: true, Snapshots: true, Stepped: &sim.SteppedConfig{},
		Drivers: []cluster.Driver{{Name: array.DriverName, Controller: func(cluster.DriverNode) (func(grpc.ServiceRegistrar), error) {
			return func(r grpc.ServiceRegistrar) {
				csispec.RegisterIdentityServer(r, devices.Identity())
				csispec.RegisterControllerServer(r, devices.Controller())
			}, nil
		}}},
	})
	capability := &csispec.VolumeCapability{
		AccessType: &csispec.VolumeCapability_Mount{Mount: &csispec.VolumeCapability_MountVolume{}},
		AccessMode: &csispec.VolumeCapability_AccessMode{Mode: csispec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	}
	volume := testcheck.Must(devices.Controller().CreateVolume(t.Context(),
		&csispec.CreateVolumeRequest{Name: "v", VolumeCapabilities: []*csispec.VolumeCapability{capability}}))
	id := volume.GetVolume().GetVolumeId()
	taken := testcheck.Must(devices.Controller().CreateSnapshot(t.Context(), &csispec.CreateSnapshotRequest{Name: "s", SourceVolumeId: id}))
	want := []string{"volume " + id + " of driver " + array.DriverName, "snapshot " + taken.GetSnapshot().GetSnapshotId() + " of driver " + array.DriverName}
	testcheck.Equal(t, "leaks", want, testcheck.Must(c.Leaks()))
}
