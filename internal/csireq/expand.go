package csireq

import (
	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// CheckControllerExpand checks the arguments of ControllerExpandVolume. The capability is optional.
func (o Features) CheckControllerExpand(request *csi.ControllerExpandVolumeRequest) error {
	if err := RequireVolumeID(request); err != nil {
		return err
	}
	if request.GetCapacityRange() == nil {
		return status.Error(codes.InvalidArgument, "capacity_range is missing")
	}
	if request.GetVolumeCapability() == nil {
		return nil
	}
	return o.Check(request.GetVolumeCapability())
}

// CheckNodeExpand checks the arguments of NodeExpandVolume. The capability and the range are
// optional.
func (o Features) CheckNodeExpand(request *csi.NodeExpandVolumeRequest) error {
	err := require(request, argument{"volume_id", request.GetVolumeId()}, argument{"volume_path", request.GetVolumePath()})
	if err != nil || request.GetVolumeCapability() == nil {
		return err
	}
	return o.Check(request.GetVolumeCapability())
}

// Expand returns the new size of a volume to expand, or its present size if that suffices. Errors
// are those of Choose.
func (s Sizes) Expand(sizeBytes int64, wanted *csi.CapacityRange) (int64, error) {
	size, err := s.Choose(wanted)
	if err != nil || wanted.GetRequiredBytes() <= sizeBytes {
		size = sizeBytes
	}
	if limit := wanted.GetLimitBytes(); err == nil && limit > 0 && size > limit {
		return 0, status.Errorf(codes.OutOfRange, "the volume has %d bytes, above limit_bytes %d, and does not shrink",
			size, limit)
	}
	return size, err
}

// CheckExpanded returns OutOfRange if a volume is smaller than a node requests: it must be expanded
// by the controller first.
func CheckExpanded(volumeID string, sizeBytes int64, wanted *csi.CapacityRange) error {
	if required := wanted.GetRequiredBytes(); required > sizeBytes {
		return status.Errorf(codes.OutOfRange, "volume %s has %d bytes, requested are %d", volumeID, sizeBytes, required)
	}
	return nil
}
