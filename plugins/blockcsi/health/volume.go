package health

import (
	"context"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/plugins/blockcsi"
)

const (
	degraded     = csi.VolumeHealthErrorType_DEGRADED
	inaccessible = csi.VolumeHealthErrorType_INACCESSIBLE
	dataLoss     = csi.VolumeHealthErrorType_DATA_LOSS
)

// volumeFindings is what is wrong with a volume, wherever it is used.
func (s *Services) volumeFindings(ctx context.Context, seen blockcsi.VolumeState) []finding {
	var all []finding
	if seen.Trouble != "" {
		how := inaccessible // it is not attached like this
		if seen.Attachment != nil {
			how = degraded
		}
		all = append(all, finding{how, "VolumeTrouble", seen.Trouble})
	}
	switch {
	case seen.AttachmentErr != nil && seen.Unfinished:
		return append(all, finding{dataLoss, "BackingRemoved", status.Convert(seen.AttachmentErr).Message()})
	case seen.AttachmentErr != nil:
		return append(all, finding{inaccessible, "DeviceUnclear", status.Convert(seen.AttachmentErr).Message()})
	case seen.Attachment != nil && seen.Attachment.Device == "":
		all = append(all, finding{
			inaccessible, "DeviceGone",
			"the volume is attached and has no device since the machine was started: it gets one as it is staged",
		})
	case seen.Attachment != nil:
		all = append(all, s.deviceFindings(ctx, seen)...)
	}
	return append(all, s.capacityFindings(ctx, seen)...)
}

// capacityFindings tells whether a volume can still be filled.
func (s *Services) capacityFindings(ctx context.Context, seen blockcsi.VolumeState) []finding {
	pool, tells := seen.Pool.(allocationReporter)
	if !tells {
		return nil
	}
	backed, err := pool.BackedBytes(ctx, seen.Volume)
	if err != nil || backed >= seen.SizeBytes {
		return nil // who cannot be asked is told of otherwise: by Trouble, or as storage
	}
	room, err := seen.Pool.Capacity(ctx, seen.Parameters)
	if err != nil {
		return nil
	}
	missing := seen.SizeBytes - backed
	switch {
	case room.FreeBytes <= 0:
		return []finding{{degraded, "BackingStoreFull", fmt.Sprintf(
			"%d bytes of the volume have no place yet and none is left: what is written there fails; free some where the volume lies", missing)}}
	case room.FreeBytes < s.cfg.LowBytes && room.FreeBytes < missing:
		return []finding{{degraded, "BackingStoreNearlyFull", fmt.Sprintf(
			"%d bytes of the volume have no place yet and %d are left for all volumes: free some where the volume lies", missing, room.FreeBytes)}}
	}
	return nil
}

// deviceFindings is what is wrong with the device of an attached volume, and with the
// file system on it.
func (s *Services) deviceFindings(ctx context.Context, seen blockcsi.VolumeState) []finding {
	path := seen.Attachment.Device
	device, err := inspectDevice(path)
	if err != nil {
		return []finding{{inaccessible, "DeviceGone", err.Error()}}
	}
	var all []finding
	switch {
	case device.sizeBytes > seen.SizeBytes:
		all = append(all, finding{dataLoss, "VolumeCutShort", fmt.Sprintf(
			"%s has %d bytes, of which the volume has only %d left", path, device.sizeBytes, seen.SizeBytes)})
	case device.sizeBytes < seen.SizeBytes:
		all = append(all, finding{degraded, "DeviceTooSmall", fmt.Sprintf(
			"%s has %d bytes, the volume %d: expand it again on the node", path, device.sizeBytes, seen.SizeBytes)})
	}
	if err := s.readers.read(ctx, path, device.sizeBytes); err != nil {
		all = append(all, finding{inaccessible, "DeviceUnreadable", err.Error()})
	}
	if device.fsErrors > 0 {
		all = append(all, finding{degraded, "FileSystemErrors", fmt.Sprintf(
			"the kernel has noted %d errors in the file system on %s: unmount it and run fsck", device.fsErrors, path)})
	}
	return append(all, mountFindings(path, seen.Attachment.ReadOnly)...)
}

// mountFindings is what is wrong with a file system where it is mounted.
func mountFindings(path string, readOnly bool) []finding {
	places, err := mountsOf(path)
	if err != nil || len(places) == 0 {
		return nil
	}
	at := places[0].path
	if err := checkResponds(at); err != nil {
		return []finding{{inaccessible, "FileSystemDown", fmt.Sprintf("the file system at %s does not answer: %v", at, err)}}
	}
	for _, each := range places {
		if each.isStopped(readOnly) {
			return []finding{{degraded, "FileSystemReadOnly", fmt.Sprintf(
				"the file system at %s became read-only, as the kernel does it after errors: unmount it and run fsck", each.path)}}
		}
	}
	return nil
}
