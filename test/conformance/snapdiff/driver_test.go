package snapdiff

import (
	"context"
	"fmt"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/test/conformance/histories/storeddriver"
)

// The kinds of calls of the driver, and keys of its state.
const (
	callCreate = "create"
	callDelete = "delete"
	callList   = "list"
	// keyReady says whether snapshots are ready to use.
	keyReady = "ready"
	// keySnapshot is the prefix of the handles of the snapshots that exist.
	keySnapshot = "snapshot."
)

// driver answers calls from its state. It is the connection of our snapshotter.
type driver struct {
	grpc.ClientConnInterface

	storeddriver.State
}

func newDriver(client kubernetes.Interface) driver {
	return driver{State: storeddriver.State{Client: client, Namespace: namespace}}
}

// cutAt is when all snapshots were taken.
var cutAt = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// sizeOf is the size of a snapshot.
const sizeOf = 1 << 30

func (d driver) create(ctx context.Context, r *csispec.CreateSnapshotRequest) (*csispec.CreateSnapshotResponse, error) {
	handle := "of-" + r.GetName()
	state, err := d.Call(ctx, callCreate, func(state map[string]string) {
		state[keySnapshot+handle] = fmt.Sprint(r.GetSourceVolumeId(), " ", r.GetParameters(), " ", r.GetSecrets())
	})
	if err != nil {
		return nil, err
	}
	return &csispec.CreateSnapshotResponse{Snapshot: snapshotIn(state, handle)}, nil
}

func snapshotIn(state map[string]string, handle string) *csispec.Snapshot {
	return &csispec.Snapshot{
		SnapshotId: handle, SizeBytes: sizeOf, CreationTime: timestamppb.New(cutAt), ReadyToUse: state[keyReady] != "false",
	}
}

func (d driver) remove(ctx context.Context, r *csispec.DeleteSnapshotRequest) error {
	_, err := d.Call(ctx, callDelete, func(state map[string]string) { delete(state, keySnapshot+r.GetSnapshotId()) })
	return err
}

func (d driver) list(ctx context.Context, r *csispec.ListSnapshotsRequest) (*csispec.ListSnapshotsResponse, error) {
	handle := r.GetSnapshotId()
	state, err := d.Call(ctx, callList, func(map[string]string) {})
	if err != nil {
		return nil, err
	}
	response := &csispec.ListSnapshotsResponse{}
	if _, exists := state[keySnapshot+handle]; exists {
		response.Entries = []*csispec.ListSnapshotsResponse_Entry{{Snapshot: snapshotIn(state, handle)}}
	}
	return response, nil
}

// Invoke makes a call.
func (d driver) Invoke(ctx context.Context, method string, request, reply any, _ ...grpc.CallOption) error {
	var response proto.Message
	var err error
	switch r := request.(type) {
	case *csispec.GetPluginInfoRequest:
		response = &csispec.GetPluginInfoResponse{Name: driverName}
	case *csispec.ControllerGetCapabilitiesRequest:
		response = storeddriver.Capabilities(
			csispec.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT, csispec.ControllerServiceCapability_RPC_LIST_SNAPSHOTS)
	case *csispec.CreateSnapshotRequest:
		response, err = d.create(ctx, r)
	case *csispec.DeleteSnapshotRequest:
		response, err = &csispec.DeleteSnapshotResponse{}, d.remove(ctx, r)
	case *csispec.ListSnapshotsRequest:
		response, err = d.list(ctx, r)
	default:
		return status.Error(codes.Unimplemented, method)
	}
	return storeddriver.Answer(reply, response, err)
}
