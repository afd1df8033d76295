package csireq

import (
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// CheckCreateGroup checks the arguments of CreateVolumeGroupSnapshot. It returns the IDs of the
// volumes, sorted.
func CheckCreateGroup(request *csi.CreateVolumeGroupSnapshotRequest) (sources []string, err error) {
	sources = slices.Sorted(slices.Values(request.GetSourceVolumeIds()))
	err = RequireName(request)
	switch {
	case err != nil:
		return nil, err
	case len(sources) == 0:
		return nil, status.Error(codes.InvalidArgument, "source_volume_ids is missing")
	case len(slices.Compact(slices.Clone(sources))) < len(sources):
		return nil, status.Error(codes.InvalidArgument, "source_volume_ids contains a volume twice")
	}
	return sources, nil
}

// MemberID returns the ID of a volume's snapshot in a group with a name.
func MemberID(group, source string) string { return SnapshotID("group " + group + " of " + source) }

// CheckSources returns AlreadyExists if the existing group has other source volumes than requested.
// Both lists are sorted.
func CheckSources(groupID string, has, wanted []string) error {
	if !slices.Equal(has, wanted) {
		return status.Errorf(codes.AlreadyExists, "group %s exists with sources %v, requested are %v", groupID, has, wanted)
	}
	return nil
}

// CheckMembers returns InvalidArgument if a request names other snapshots than the group has. The
// group's are sorted. An empty list is accepted.
func CheckMembers(groupID string, has, named []string) error {
	if named = slices.Sorted(slices.Values(named)); len(named) > 0 && !slices.Equal(named, has) {
		return status.Errorf(codes.InvalidArgument, "snapshot_ids: group %s has %v, requested are %v", groupID, has, named)
	}
	return nil
}

// GroupCapabilities returns the response of GroupControllerGetCapabilities.
func GroupCapabilities(
	types ...csi.GroupControllerServiceCapability_RPC_Type,
) *csi.GroupControllerGetCapabilitiesResponse {
	response := &csi.GroupControllerGetCapabilitiesResponse{}
	for _, each := range types {
		response.Capabilities = append(response.Capabilities, &csi.GroupControllerServiceCapability{
			Type: &csi.GroupControllerServiceCapability_Rpc{Rpc: &csi.GroupControllerServiceCapability_RPC{Type: each}},
		})
	}
	return response
}
