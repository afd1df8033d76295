package health

import (
	"context"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/blockcsi"
)

const (
	degraded     = csi.VolumeHealthErrorType_DEGRADED
	inaccessible = csi.VolumeHealthErrorType_INACCESSIBLE
	dataLoss     = csi.VolumeHealthErrorType_DATA_LOSS
)

// volumeFindings returns the problems of a volume on any node.
func (s *Services) volumeFindings(ctx context.Context, state blockcsi.VolumeState) []finding {
	var all []finding
	if state.Trouble != "" {
		how := inaccessible // it cannot be attached like this
		if state.Attachment != nil {
			how = degraded
		}
		all = append(all, finding{how, "VolumeTrouble", state.Trouble})
	}
	switch {
	case state.AttachmentErr != nil && state.Unfinished:
		return append(all, finding{dataLoss, "BackingRemoved", status.Convert(state.AttachmentErr).Message()})
	case state.AttachmentErr != nil:
		return append(all, finding{inaccessible, "DeviceUnclear", status.Convert(state.AttachmentErr).Message()})
	case state.Attachment != nil && state.Attachment.Device == "":
		all = append(all, finding{
			inaccessible, "DeviceGone",
			"the volume is attached but has no device since the machine restarted: stage it to recreate the device",
		})
	case state.Attachment != nil:
		all = append(all, s.deviceFindings(ctx, state)...)
	}
	return append(all, s.capacityFindings(ctx, state)...)
}

// capacityFindings checks whether a volume can still be filled.
func (s *Services) capacityFindings(ctx context.Context, state blockcsi.VolumeState) []finding {
	pool, reports := state.Pool.(allocationReporter)
	if !reports {
		return nil
	}
	allocated, err := pool.BackedBytes(ctx, state.Volume)
	if err != nil || allocated >= state.SizeBytes {
		return nil // such errors are reported elsewhere: as Trouble or as storage health
	}
	capacity, err := state.Pool.Capacity(ctx, state.Parameters)
	if err != nil {
		return nil
	}
	missing := state.SizeBytes - allocated
	switch {
	case capacity.FreeBytes <= 0:
		return []finding{{degraded, "BackingStoreFull", fmt.Sprintf(
			"%d bytes of the volume are unallocated and no space is free: "+
				"writes there fail; free space in the backing store", missing)}}
	case capacity.FreeBytes < s.cfg.LowBytes && capacity.FreeBytes < missing:
		return []finding{{degraded, "BackingStoreNearlyFull", fmt.Sprintf(
			"%d bytes of the volume are unallocated and %d are free for all volumes: free space in the backing store",
			missing, capacity.FreeBytes)}}
	}
	return nil
}

// deviceFindings checks the device of an attached volume and its file system.
func (s *Services) deviceFindings(ctx context.Context, state blockcsi.VolumeState) []finding {
	path := state.Attachment.Device
	device, err := inspectDevice(path)
	if err != nil {
		return []finding{{inaccessible, "DeviceGone", err.Error()}}
	}
	var all []finding
	switch {
	case device.sizeBytes > state.SizeBytes:
		all = append(all, finding{dataLoss, "VolumeCutShort", fmt.Sprintf(
			"%s has %d bytes, but only %d of the volume are left", path, device.sizeBytes, state.SizeBytes)})
	case device.sizeBytes < state.SizeBytes:
		all = append(all, finding{degraded, "DeviceTooSmall", fmt.Sprintf(
			"%s has %d bytes, the volume has %d: expand it again on the node", path, device.sizeBytes,
			state.SizeBytes)})
	}
	if err := s.readers.read(ctx, path, device.sizeBytes); err != nil {
		all = append(all, finding{inaccessible, "DeviceUnreadable", err.Error()})
	}
	if device.fsErrors > 0 {
		all = append(all, finding{degraded, "FileSystemErrors", fmt.Sprintf(
			"the kernel has counted %d errors in the file system on %s: unmount it and run fsck", device.fsErrors,
			path)})
	}
	return append(all, mountFindings(path, state.Attachment.ReadOnly)...)
}

// mountFindings checks a file system where it is mounted.
func mountFindings(path string, readOnly bool) []finding {
	places, err := mountsOf(path)
	if err != nil || len(places) == 0 {
		return nil
	}
	at := places[0].path
	if err := checkResponds(at); err != nil {
		return []finding{{
			inaccessible, "FileSystemDown", fmt.Sprintf("the file system at %s does not respond: %v", at, err),
		}}
	}
	for _, each := range places {
		if each.isStopped(readOnly) {
			return []finding{{degraded, "FileSystemReadOnly", fmt.Sprintf(
				"the file system at %s became read-only, which the kernel does after errors: unmount it and run fsck",
				each.path)}}
		}
	}
	return nil
}
