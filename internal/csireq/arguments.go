package csireq

import (
	"math"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// An argument is a required field of a request, with its name in the specification.
type argument struct{ name, value string }

// require returns InvalidArgument for the first argument of a request that is empty, and for a text
// of the request that CheckText refuses.
func require(request proto.Message, arguments ...argument) error {
	if err := CheckText(request); err != nil {
		return err
	}
	for _, each := range arguments {
		if each.value == "" {
			return status.Errorf(codes.InvalidArgument, "%s is missing", each.name)
		}
	}
	return nil
}

// A VolumeRequest is a request about one volume.
type VolumeRequest interface {
	proto.Message
	GetVolumeId() string
}

// RequireVolumeID returns InvalidArgument if a request that is only about a volume, such as
// DeleteVolume, has no volume_id, or a text that CheckText refuses.
func RequireVolumeID(request VolumeRequest) error {
	return require(request, argument{"volume_id", request.GetVolumeId()})
}

// CheckCreate checks the arguments of CreateVolume except for its capacity range (see Sizes). It
// ignores parameters, so a driver registered under another driver's name accepts that driver's
// storage classes.
func (o Features) CheckCreate(request *csi.CreateVolumeRequest) error {
	if err := RequireName(request); err != nil {
		return err
	}
	if err := o.checkSource(request.GetVolumeContentSource()); err != nil {
		return err
	}
	if len(request.GetMutableParameters()) > 0 && !o.Modify {
		return status.Error(codes.InvalidArgument, "mutable_parameters: modifying a volume is not supported")
	}
	return o.Check(request.GetVolumeCapabilities()...)
}

// checkSource checks the content source of a new volume; none is valid.
func (o Features) checkSource(source *csi.VolumeContentSource) error {
	switch {
	case source == nil:
		return nil
	case !o.ContentSources:
		return status.Error(codes.InvalidArgument, "volume_content_source: snapshots and clones are not supported")
	case SourceID(source) == "":
		return status.Error(codes.InvalidArgument, "volume_content_source names neither a snapshot nor a volume")
	}
	return nil
}

// SourceID returns the ID of the snapshot or volume from which a volume is created; "" is none.
func SourceID(source *csi.VolumeContentSource) string {
	return source.GetSnapshot().GetSnapshotId() + source.GetVolume().GetVolumeId() // one of them is ""
}

// CheckCreateSnapshot checks the arguments of CreateSnapshot.
func CheckCreateSnapshot(request *csi.CreateSnapshotRequest) error {
	return require(request, argument{"source_volume_id", request.GetSourceVolumeId()}, argument{"name", request.GetName()})
}

// RequireSnapshotID is RequireVolumeID for a request about a snapshot.
func RequireSnapshotID(request interface {
	proto.Message
	GetSnapshotId() string
},
) error {
	return require(request, argument{"snapshot_id", request.GetSnapshotId()})
}

// RequireGroupID is RequireVolumeID for a request about a group of snapshots.
func RequireGroupID(request interface {
	proto.Message
	GetGroupSnapshotId() string
},
) error {
	return require(request, argument{"group_snapshot_id", request.GetGroupSnapshotId()})
}

// RequireName is RequireVolumeID for a request that names what it creates.
func RequireName(request interface {
	proto.Message
	GetName() string
},
) error {
	return require(request, argument{"name", request.GetName()})
}

// CheckValidate checks the arguments of ValidateVolumeCapabilities. It does not check whether the
// capabilities are supported, which is the answer to the call.
func CheckValidate(request *csi.ValidateVolumeCapabilitiesRequest) error {
	if err := RequireVolumeID(request); err != nil {
		return err
	}
	if len(request.GetVolumeCapabilities()) == 0 {
		return status.Error(codes.InvalidArgument, "volume_capabilities is missing")
	}
	return nil
}

// Validate returns the response of ValidateVolumeCapabilities for a volume that exists.
func (o Features) Validate(request *csi.ValidateVolumeCapabilitiesRequest) *csi.ValidateVolumeCapabilitiesResponse {
	if err := o.Check(request.GetVolumeCapabilities()...); err != nil {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: status.Convert(err).Message()}
	}
	return &csi.ValidateVolumeCapabilitiesResponse{
		Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
			VolumeContext:      request.GetVolumeContext(),
			VolumeCapabilities: request.GetVolumeCapabilities(),
			Parameters:         request.GetParameters(),
		},
	}
}

// CheckControllerPublish checks the arguments of ControllerPublishVolume.
func (o Features) CheckControllerPublish(request *csi.ControllerPublishVolumeRequest) error {
	err := require(request, argument{"volume_id", request.GetVolumeId()}, argument{"node_id", request.GetNodeId()})
	if err != nil {
		return err
	}
	return o.Check(request.GetVolumeCapability())
}

// CheckStage checks the arguments of NodeStageVolume.
func (o Features) CheckStage(request *csi.NodeStageVolumeRequest) error {
	err := require(request,
		argument{"volume_id", request.GetVolumeId()},
		argument{"staging_target_path", request.GetStagingTargetPath()})
	if err != nil {
		return err
	}
	return o.Check(request.GetVolumeCapability())
}

// CheckUnstage checks the arguments of NodeUnstageVolume.
func CheckUnstage(request *csi.NodeUnstageVolumeRequest) error {
	return require(request,
		argument{"volume_id", request.GetVolumeId()},
		argument{"staging_target_path", request.GetStagingTargetPath()})
}

// CheckPublish checks the arguments of NodePublishVolume. A missing staging path is
// FailedPrecondition, as the specification requires: the volume was not staged.
func (o Features) CheckPublish(request *csi.NodePublishVolumeRequest) error {
	err := require(request, argument{"volume_id", request.GetVolumeId()}, argument{"target_path", request.GetTargetPath()})
	if err != nil {
		return err
	}
	if err := o.Check(request.GetVolumeCapability()); err != nil {
		return err
	}
	if request.GetStagingTargetPath() == "" {
		return status.Error(codes.FailedPrecondition, "staging_target_path is missing: stage the volume first")
	}
	return nil
}

// CheckUnpublish checks the arguments of NodeUnpublishVolume.
func CheckUnpublish(request *csi.NodeUnpublishVolumeRequest) error {
	return require(request, argument{"volume_id", request.GetVolumeId()}, argument{"target_path", request.GetTargetPath()})
}

// CheckStats checks the arguments of NodeGetVolumeStats.
func CheckStats(request *csi.NodeGetVolumeStatsRequest) error {
	return require(request, argument{"volume_id", request.GetVolumeId()}, argument{"volume_path", request.GetVolumePath()})
}

// Sizes are a driver's constraints on the size of a volume, in bytes.
type Sizes struct {
	Default int64 // if none is requested
	Min     int64 // smaller requests are rounded up to it
	Step    int64 // sizes are multiples of it; 0 is 1
	Max     int64 // a larger request is OutOfRange; 0 is no maximum
}

// Choose returns the size of a new volume. A negative value, or a limit below the required size, is
// InvalidArgument. A range that contains no allowed size is OutOfRange.
func (s Sizes) Choose(wanted *csi.CapacityRange) (int64, error) {
	required, limit := wanted.GetRequiredBytes(), wanted.GetLimitBytes()
	if required < 0 || limit < 0 {
		return 0, status.Error(codes.InvalidArgument, "capacity_range: a size is negative")
	}
	if limit > 0 && limit < required {
		return 0, status.Errorf(codes.InvalidArgument,
			"capacity_range: limit_bytes %d is below required_bytes %d", limit, required)
	}
	step := max(s.Step, 1)
	size := max(required, s.Min)
	if required == 0 {
		size = max(s.Default, s.Min)
		if limit > 0 {
			size = max(min(size, limit/step*step), s.Min)
		}
	}
	if size > math.MaxInt64-step {
		return 0, status.Errorf(codes.OutOfRange, "%d bytes is too large", required)
	}
	size = (size + step - 1) / step * step
	if limit > 0 && size > limit {
		return 0, status.Errorf(codes.OutOfRange,
			"the smallest volume that fits has %d bytes, above limit_bytes %d", size, limit)
	}
	if s.Max > 0 && size > s.Max {
		return 0, status.Errorf(codes.OutOfRange, "%d bytes is too large, the maximum is %d", size, s.Max)
	}
	return size, nil
}

// CheckExisting returns AlreadyExists if the existing volume of the requested name has a size
// outside the requested range. Call it after Choose.
func CheckExisting(name string, sizeBytes int64, wanted *csi.CapacityRange) error {
	required, limit := wanted.GetRequiredBytes(), wanted.GetLimitBytes()
	if sizeBytes < required || (limit > 0 && sizeBytes > limit) {
		return status.Errorf(codes.AlreadyExists,
			"volume %q exists with %d bytes, requested are at least %d and at most %d (0: any)", name, sizeBytes, required,
			limit)
	}
	return nil
}
