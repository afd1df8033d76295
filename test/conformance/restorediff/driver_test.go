package restorediff

import (
	"context"
	"fmt"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/test/conformance/histories/storeddriver"
)

const (
	// The kinds of calls of the driver are keys of its state.
	callCreate = "create"
	callDelete = "delete"
	// keyVolume is the prefix of the handles of the volumes that exist.
	keyVolume = "volume."
)

var capabilities = []csispec.ControllerServiceCapability_RPC_Type{
	csispec.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, csispec.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
	csispec.ControllerServiceCapability_RPC_CLONE_VOLUME,
}

// driver answers calls from its state. It is the connection of our provisioner.
type driver struct {
	grpc.ClientConnInterface

	storeddriver.State
}

func newDriver(client kubernetes.Interface) driver {
	return driver{State: storeddriver.State{Client: client, Namespace: namespace}}
}

func (d driver) create(ctx context.Context, r *csispec.CreateVolumeRequest) (*csispec.CreateVolumeResponse, error) {
	handle := "handle-" + r.GetName()
	source := "nothing"
	if s := r.GetVolumeContentSource(); s != nil {
		source = s.GetSnapshot().GetSnapshotId() + s.GetVolume().GetVolumeId()
	}
	size := r.GetCapacityRange().GetRequiredBytes()
	_, err := d.Call(ctx, callCreate, func(state map[string]string) {
		state[keyVolume+handle] = fmt.Sprintf("%d bytes from %s, %v, block %v", size, source, r.GetParameters(), r.GetVolumeCapabilities()[0].GetBlock() != nil)
	})
	if err != nil {
		return nil, err
	}
	return &csispec.CreateVolumeResponse{Volume: &csispec.Volume{VolumeId: handle, CapacityBytes: size, ContentSource: r.GetVolumeContentSource()}}, nil
}

// Invoke makes a call.
func (d driver) Invoke(ctx context.Context, method string, request, reply any, _ ...grpc.CallOption) error {
	var response proto.Message
	var err error
	switch r := request.(type) {
	case *csispec.GetPluginInfoRequest:
		response = &csispec.GetPluginInfoResponse{Name: driverName}
	case *csispec.ControllerGetCapabilitiesRequest:
		response = storeddriver.Capabilities(capabilities...)
	case *csispec.CreateVolumeRequest:
		response, err = d.create(ctx, r)
	case *csispec.DeleteVolumeRequest:
		response = &csispec.DeleteVolumeResponse{}
		_, err = d.Call(ctx, callDelete, func(state map[string]string) { delete(state, keyVolume+r.GetVolumeId()) })
	default:
		return status.Error(codes.Unimplemented, method)
	}
	return storeddriver.Answer(reply, response, err)
}
