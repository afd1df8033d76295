package conformance_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/nodefs"
)

// driverName is the name of the driver of the real sidecars.
const driverName = "real.csi.volsim.dev"

// A driver is the array on a socket, extended by the other calls of the real sidecars: expand,
// modify, snapshot and clone. It only records them.
type driver struct {
	csi.ControllerServer
	csi.IdentityServer

	mu        sync.Mutex
	snapshots map[string]*csi.Snapshot // by name
	modified  map[string]map[string]string
}

// serveDriver serves the driver on a unix socket until the end of the test.
func serveDriver(t *testing.T, socket string, nodes ...string) *driver {
	t.Helper()
	disks := array.New(array.Config{DriverName: driverName})
	d := &driver{
		ControllerServer: disks.Controller(), IdentityServer: disks.Identity(),
		snapshots: map[string]*csi.Snapshot{}, modified: map[string]map[string]string{},
	}
	for _, node := range nodes {
		disks.Node(node, nodefs.NewMemory("/"+node))
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	csi.RegisterIdentityServer(server, d)
	csi.RegisterControllerServer(server, d)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return d
}

func (d *driver) ControllerGetCapabilities(ctx context.Context, r *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	answer, err := d.ControllerServer.ControllerGetCapabilities(ctx, r)
	if err != nil {
		return nil, err
	}
	for _, c := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME, csi.ControllerServiceCapability_RPC_MODIFY_VOLUME,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT, csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS,
		csi.ControllerServiceCapability_RPC_CLONE_VOLUME,
	} {
		answer.Capabilities = append(answer.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: c}},
		})
	}
	return answer, nil
}

// CreateVolume creates a clone or a restored snapshot as an empty volume that records its source.
func (d *driver) CreateVolume(ctx context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	source := r.GetVolumeContentSource()
	r.VolumeContentSource, r.MutableParameters = nil, nil
	answer, err := d.ControllerServer.CreateVolume(ctx, r)
	if err == nil {
		answer.Volume.ContentSource = source
	}
	return answer, err
}

func (d *driver) ControllerExpandVolume(_ context.Context, r *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: r.GetCapacityRange().GetRequiredBytes()}, nil
}

func (d *driver) ControllerModifyVolume(_ context.Context, r *csi.ControllerModifyVolumeRequest) (*csi.ControllerModifyVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.modified[r.GetVolumeId()] = r.GetMutableParameters()
	return &csi.ControllerModifyVolumeResponse{}, nil
}

func (d *driver) CreateSnapshot(_ context.Context, r *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.snapshots[r.GetName()]
	if s == nil {
		s = &csi.Snapshot{
			SnapshotId: fmt.Sprintf("snapshot-%d", len(d.snapshots)+1), SourceVolumeId: r.GetSourceVolumeId(), SizeBytes: 1 << 20,
			ReadyToUse: true, CreationTime: timestamppb.New(time.Unix(1_700_000_000, 0)),
		}
		d.snapshots[r.GetName()] = s
	}
	return &csi.CreateSnapshotResponse{Snapshot: s}, nil
}

func (d *driver) DeleteSnapshot(_ context.Context, r *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, s := range d.snapshots {
		if s.GetSnapshotId() == r.GetSnapshotId() {
			delete(d.snapshots, name)
		}
	}
	return &csi.DeleteSnapshotResponse{}, nil
}

func (d *driver) ListSnapshots(_ context.Context, r *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse, error) {
	if r.GetStartingToken() != "" {
		return nil, status.Error(codes.Aborted, "there is one page")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	answer := &csi.ListSnapshotsResponse{}
	for _, s := range d.snapshots {
		if r.GetSnapshotId() == "" || r.GetSnapshotId() == s.GetSnapshotId() {
			answer.Entries = append(answer.Entries, &csi.ListSnapshotsResponse_Entry{Snapshot: s})
		}
	}
	return answer, nil
}
