package csitest

import (
	"context"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/csi"
)

// scripted returns a client of an array's controller whose answers follow a script, over a real gRPC server or
// by direct calls.
func scripted(t *testing.T, script *Script, direct bool) (csispec.ControllerClient, *array.Array) {
	t.Helper()
	disks := array.New(array.Config{})
	register := script.Services("", func(r grpc.ServiceRegistrar) { csispec.RegisterControllerServer(r, disks.Controller()) })
	if direct {
		return csispec.NewControllerClient(csi.Direct(register)), disks
	}
	server := testcheck.Must(csi.Serve(register))
	t.Cleanup(func() { testcheck.NoError(t, server.Stop()) })
	return csispec.NewControllerClient(server.Conn()), disks
}

var create = &csispec.CreateVolumeRequest{Name: "a", VolumeCapabilities: []*csispec.VolumeCapability{{
	AccessType: &csispec.VolumeCapability_Mount{Mount: &csispec.VolumeCapability_MountVolume{}},
	AccessMode: &csispec.VolumeCapability_AccessMode{Mode: csispec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
}}}

// TestScript answers calls before and after their effect, by number and all others.
func TestScript(t *testing.T) {
	t.Parallel()
	for _, direct := range []bool{true, false} {
		script := &Script{}
		script.On("CreateVolume", 1, Answer{Code: codes.Aborted})
		script.On("CreateVolume", 2, Answer{Code: codes.Unavailable, Late: true})
		script.On("DeleteVolume", 0, Answer{Code: codes.Internal})
		client, disks := scripted(t, script, direct)
		var got []string
		for i := range 3 {
			_, err := client.CreateVolume(t.Context(), create)
			got = append(got, status.Code(err).String())
			testcheck.Equal(t, "volumes", []int{0, 1, 1}[i], len(disks.Volumes()))
		}
		testcheck.Equal(t, "codes", []string{"Aborted", "Unavailable", "OK"}, got)
		for range 2 {
			_, err := client.DeleteVolume(t.Context(), &csispec.DeleteVolumeRequest{VolumeId: disks.IDs()[0]})
			if got, want := status.Convert(err).Message(), "DeleteVolume: scripted answer"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		if made := script.Calls("CreateVolume"); len(made) != 3 || made[0].Err == nil || made[0].Response != nil ||
			made[2].Response.(*csispec.CreateVolumeResponse).GetVolume().GetVolumeId() != disks.IDs()[0] ||
			made[2].Request.(*csispec.CreateVolumeRequest).GetName() != "a" {
			t.Errorf("calls %v", made)
		}
		testcheck.Equal(t, "number of all calls", 5, len(script.Calls("")))
	}
}

// TestScriptHolds holds calls up until they are released, for a time, and until the caller gives up.
func TestScriptHolds(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	script := &Script{}
	script.On("CreateVolume", 1, Answer{Until: release, Late: true})
	script.On("CreateVolume", 2, Answer{Delay: time.Nanosecond})
	script.On("CreateVolume", 3, Answer{Until: make(chan struct{})})
	client, disks := scripted(t, script, false)
	answered := make(chan error)
	go func() {
		_, err := client.CreateVolume(context.WithoutCancel(t.Context()), create)
		answered <- err
	}()
	close(release)
	testcheck.NoError(t, <-answered)
	testcheck.Equal(t, "volumes", 1, len(disks.Volumes()))
	_, err := client.CreateVolume(t.Context(), create)
	testcheck.NoError(t, err)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := script.answer(gone, "CreateVolume", func(context.Context) (any, error) { return nil, nil }); status.Code(err) != codes.Canceled {
		t.Errorf("the answer to a caller that has given up: %v", err)
	}
}
