package blockcsi

import (
	"context"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/blockdev"
	"github.com/volsim/volsim/plugins/internal/csireq"
)

// freeze keeps volumes still until thaw, all from before it returns, with what is
// in their file systems on their devices. Thaw takes what went wrong meanwhile and
// returns it, or else what went wrong with thawing. On an error nothing is frozen.
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

// joinThawError is an error with that of thawing, if there is one.
func joinThawError(err, thawing error) error {
	switch {
	case thawing == nil:
		return err
	case err == nil:
		return status.Error(codes.Internal, thawing.Error())
	}
	return status.Errorf(status.Code(err), "%s; %v", status.Convert(err).Message(), thawing)
}

// freezeOne keeps one volume still, by itself or at one instant with others. There
// is nothing to freeze of one that nobody can write to: nil.
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
		return nil, status.Errorf(codes.FailedPrecondition, "copying volume %s takes that it is kept still: %v", source.ID, err)
	}
	if held == nil {
		err = d.flush(source.Volume, *attached, together)
	}
	return held, err
}

// flush has what was written to a device that is not mounted reach the volume.
// While it is used, the volume is not still: a pool may copy it at one instant,
// but not several of them.
func (d *Driver) flush(volume Volume, attached Attachment, together bool) error {
	inUse, err := blockdev.IsOpen(attached.Device)
	if err == nil && inUse && (together || !d.caps.AtomicCopies) {
		return status.Errorf(codes.FailedPrecondition,
			"volume %s is used as a device (%s), of which a copy would hold no single instant: stop its pod first", volume.ID, attached.Device)
	}
	if err == nil {
		err = blockdev.Flush(attached.Device)
	}
	return csireq.PathStatus(err)
}

// thaw ends the freezing of all volumes that a driver which was killed had
// frozen, and says which. Call it before the services are used; Recover does.
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
