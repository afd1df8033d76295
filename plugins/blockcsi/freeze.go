package blockcsi

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/plugins/csireq"
)

// freeze keeps the file system of a volume still until thaw, and what is in it
// on the device. Nothing to do for one that is not attached.
func (d *Driver) freeze(ctx context.Context, pool Pool, volume Volume) (thaw func() error, err error) {
	nothing := func() error { return nil }
	if volume.IsSnapshot() {
		return nothing, nil
	}
	attached, err := pool.Attachment(ctx, volume)
	if err != nil || attached == nil {
		return nothing, csireq.PathStatus(err)
	}
	places, err := MountPoints(attached.Device)
	if err != nil {
		return nothing, csireq.PathStatus(err)
	}
	if len(places) == 0 {
		return nothing, d.flush(volume, *attached)
	}
	if err := freezeAt(places[0]); err != nil {
		return nothing, status.Errorf(codes.Internal, "freeze %s at %s: %v", volume.ID, places[0], err)
	}
	return func() error { return thawAt(places[0]) }, nil
}

// flush has what was written to a device that is not mounted reach the volume.
func (d *Driver) flush(volume Volume, attached Attachment) error {
	inUse, err := isOpen(attached.Device)
	if err == nil && inUse && !d.able.InstantCopies {
		return status.Errorf(codes.FailedPrecondition,
			"volume %s is used as a device (%s), of which a copy would hold no single instant: stop its pod first", volume.ID, attached.Device)
	}
	if err == nil && !attached.ReadOnly {
		err = flushDevice(attached.Device)
	}
	return csireq.PathStatus(err)
}

// thaw ends the freezing of all volumes that a driver which was killed had
// frozen. Call it before the services are used; Recover does.
func (d *Driver) thaw(ctx context.Context) error {
	var failed []error
	for _, pool := range d.cfg.Pools {
		attachments, err := pool.Attachments(ctx)
		if err != nil {
			return err
		}
		for _, each := range attachments {
			places, err := MountPoints(each.Device)
			failed = append(failed, err)
			if len(places) > 0 {
				failed = append(failed, thawAt(places[0]))
			}
		}
	}
	return errors.Join(failed...)
}
