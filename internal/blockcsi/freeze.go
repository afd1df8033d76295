package blockcsi

import (
	"context"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/blockdev"
	"github.com/volsim/volsim/internal/csireq"
)

// freeze flushes and freezes volumes until thaw is called. All are frozen when freeze returns. thaw
// takes the error of the copy and adds its own. If freeze fails, nothing is frozen.
func (d *Driver) freeze(ctx context.Context, sources ...pooledVolume) (thaw func(error) error, err error) {
	var held []*blockdev.Frozen
	thaw = func(err error) error {
		for _, each := range slices.Backward(held) {
			err = joinThawError(err, each.Thaw())
		}
		held = nil
		return err
	}
	for _, source := range sources {
		one, err := d.freezeOne(ctx, source, len(sources) > 1)
		if err != nil {
			return nil, thaw(err)
		}
		if one != nil {
			held = append(held, one)
		}
	}
	return thaw, nil
}

// joinThawError adds the error of thawing to err.
func joinThawError(err, thawing error) error {
	switch {
	case thawing == nil:
		return err
	case err == nil:
		return status.Error(codes.Internal, thawing.Error())
	}
	return status.Errorf(status.Code(err), "%s; %v", status.Convert(err).Message(), thawing)
}

// freezeOne freezes one volume, alone or together with others. It returns nil for a volume without
// writers.
func (d *Driver) freezeOne(ctx context.Context, source pooledVolume, together bool) (*blockdev.Frozen, error) {
	if source.IsSnapshot() {
		return nil, nil
	}
	attached, err := source.pool.Attachment(ctx, source.Volume)
	if err != nil || attached == nil || attached.ReadOnly || attached.Device == "" {
		return nil, csireq.PathStatus(err)
	}
	if d.caps.CopyFreezes {
		return nil, d.flush(source.Volume, *attached, together)
	}
	held, err := blockdev.Freeze(attached.Device)
	if err != nil {
		return nil, status.Errorf(codes.FailedPrecondition, "cannot copy volume %s without freezing it: %v", source.ID,
			err)
	}
	if held == nil {
		err = d.flush(source.Volume, *attached, together)
	}
	return held, err
}

// flush writes the cached writes of an unmounted device to the volume. A pool may copy a device in
// use at one instant, but not several devices.
func (d *Driver) flush(volume Volume, attached Attachment, together bool) error {
	inUse, err := blockdev.IsOpen(attached.Device)
	if err == nil && inUse && (together || !d.caps.AtomicCopies) {
		return status.Errorf(codes.FailedPrecondition,
			"volume %s is used as a device (%s), so a copy would be inconsistent: stop its pod first", volume.ID,
			attached.Device)
	}
	if err == nil {
		err = blockdev.Flush(attached.Device)
	}
	return csireq.PathStatus(err)
}

// thaw thaws all volumes that a killed driver left frozen. It returns one line for each. Recover
// calls it before the services are used.
func (d *Driver) thaw(ctx context.Context) (done []string, err error) {
	for _, pool := range d.cfg.Pools {
		attachments, err := pool.Attachments(ctx)
		if err != nil {
			return done, csireq.PathStatus(err)
		}
		for _, each := range attachments {
			if each.Device == "" {
				continue
			}
			thawed, err := blockdev.Thaw(each.Device)
			if err != nil {
				return done, csireq.PathStatus(err)
			}
			if thawed {
				done = append(done, "thawed "+each.VolumeID+", which was being copied")
			}
		}
	}
	return done, nil
}
