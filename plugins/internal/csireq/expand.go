package csireq

import (
	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// CheckControllerExpand checks the arguments of ControllerExpandVolume. The
// capability may be left out.
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

// CheckNodeExpand checks the arguments of NodeExpandVolume. The capability and
// the range may be left out.
func (o Features) CheckNodeExpand(request *csi.NodeExpandVolumeRequest) error {
	err := require(argument{"volume_id", request.GetVolumeId()}, argument{"volume_path", request.GetVolumePath()})
	if err != nil || request.GetVolumeCapability() == nil {
		return err
	}
	return o.Check(request.GetVolumeCapability())
}

// Expand returns the size that a volume gets which is to be larger: the one it
// has where that does. Errors are those of Choose.
func (s Sizes) Expand(sizeBytes int64, wanted *csi.CapacityRange) (int64, error) {
	size, err := s.Choose(wanted)
	if err != nil || wanted.GetRequiredBytes() <= sizeBytes {
		size = sizeBytes
	}
	if limit := wanted.GetLimitBytes(); err == nil && limit > 0 && size > limit {
		return 0, status.Errorf(codes.OutOfRange, "the volume has %d bytes, above limit_bytes %d, and does not shrink", size, limit)
	}
	return size, err
}

// CheckExpanded returns OutOfRange where a volume has fewer bytes than are asked
// for on a node: it has to grow at its back end first.
func CheckExpanded(volumeID string, sizeBytes int64, wanted *csi.CapacityRange) error {
	if required := wanted.GetRequiredBytes(); required > sizeBytes {
		return status.Errorf(codes.OutOfRange, "volume %s has %d bytes, %d are asked for", volumeID, sizeBytes, required)
	}
	return nil
}
