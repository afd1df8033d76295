package csireq_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/csireq"
	"github.com/volsim/volsim/internal/testcheck"
)

// pages is a driver with three pages of one entry.
type pages struct {
	csi.ControllerClient
	failing string // the token of a page that fails
}

func (p pages) next(token string) (id, next string, err error) {
	if p.failing != "" && token == p.failing {
		return "", "", status.Error(codes.Aborted, "the list has changed")
	}
	number := len(token) + 1
	if number < 3 {
		next = token + "+"
	}
	return fmt.Sprint("id-", number), next, nil
}

func (p pages) ListVolumes(_ context.Context, r *csi.ListVolumesRequest, _ ...grpc.CallOption) (*csi.ListVolumesResponse, error) {
	id, next, err := p.next(r.GetStartingToken())
	if err != nil {
		return nil, err
	}
	return &csi.ListVolumesResponse{NextToken: next, Entries: []*csi.ListVolumesResponse_Entry{{Volume: &csi.Volume{VolumeId: id}}}}, nil
}

func (p pages) ListSnapshots(_ context.Context, r *csi.ListSnapshotsRequest, _ ...grpc.CallOption) (*csi.ListSnapshotsResponse, error) {
	id, next, err := p.next(r.GetStartingToken())
	if err != nil {
		return nil, err
	}
	return &csi.ListSnapshotsResponse{NextToken: next, Entries: []*csi.ListSnapshotsResponse_Entry{{Snapshot: &csi.Snapshot{SnapshotId: id}}}}, nil
}

func TestAllPages(t *testing.T) {
	t.Parallel()
	var ids []string
	for _, v := range testcheck.Must(csireq.ListVolumes(t.Context(), pages{})) {
		ids = append(ids, v.GetVolumeId())
	}
	for _, s := range testcheck.Must(csireq.ListSnapshots(t.Context(), pages{})) {
		ids = append(ids, s.GetSnapshotId())
	}
	testcheck.Equal(t, "entries", []string{"id-1", "id-2", "id-3", "id-1", "id-2", "id-3"}, ids)
	_, err := csireq.ListVolumes(t.Context(), pages{failing: "+"})
	testcheck.Equal(t, "error of the second page", codes.Aborted, status.Code(err))
}
