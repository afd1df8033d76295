package loop

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/blockcsi"
	"github.com/volsim/volsim/internal/loopdev"
)

// Create implements blockcsi.Pool. It first writes a record. The image gets its name only when its
// size and content are durable.
func (p *pool) Create(ctx context.Context, spec blockcsi.VolumeSpec) (blockcsi.Volume, error) {
	release, err := p.reserveSpaceFor(spec)
	if err != nil {
		return blockcsi.Volume{}, err
	}
	defer release()
	recorded, err := p.writeRecord(spec)
	if err == nil {
		p.step("record")
		err = p.makeImage(ctx, spec)
	}
	if err != nil {
		_ = p.removeFiles(spec.ID) // the first error is more useful
		return blockcsi.Volume{}, p.status(err)
	}
	return recorded.volume(spec.ID, spec.SizeBytes, false), nil
}

// reserveSpaceFor reserves the space for creating a volume.
func (p *pool) reserveSpaceFor(spec blockcsi.VolumeSpec) (release func(), err error) {
	switch {
	case spec.Parameters[allocateKey] == allocateFull:
		return p.reserveSpace(spec.SizeBytes)
	case spec.From == nil || p.reflink:
		return p.reserveSpace(0)
	}
	info, err := os.Stat(p.image(spec.From.ID))
	if err != nil {
		return nil, p.status(err)
	}
	return p.reserveSpace(allocated(info))
}

// makeImage creates the image of a volume.
func (p *pool) makeImage(ctx context.Context, spec blockcsi.VolumeSpec) error {
	draft := filepath.Join(p.dir, spec.ID+draftSuffix)
	file, err := os.OpenFile(draft, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	p.step("draft")
	err = errors.Join(p.fill(ctx, file, spec), file.Close())
	if err == nil {
		p.step("filled")
		err = os.Rename(draft, p.image(spec.ID))
	}
	if err != nil {
		return p.sizeError(err, spec.SizeBytes)
	}
	p.step("named")
	return p.syncDir()
}

// fill writes the content of a new image, sets its size and allocates its blocks.
func (p *pool) fill(ctx context.Context, file *os.File, spec blockcsi.VolumeSpec) error {
	if spec.From != nil {
		if err := p.copyFrom(ctx, file, spec.From.ID); err != nil {
			return err
		}
		p.step("copied")
	}
	if err := file.Truncate(spec.SizeBytes); err != nil {
		return err
	}
	if spec.Parameters[allocateKey] == allocateFull {
		if err := allocate(file, 0, spec.SizeBytes, spec.From != nil && p.reflink); err != nil {
			return err
		}
	}
	if spec.From == nil {
		return nil // its metadata is synced with the directory
	}
	return file.Sync()
}

// copyFrom copies a volume's image to an empty file, by sharing blocks if possible.
func (p *pool) copyFrom(ctx context.Context, to *os.File, id string) error {
	from, err := os.Open(p.image(id))
	if err != nil {
		return err
	}
	defer from.Close()
	if p.reflink {
		return cloneFile(to, from)
	}
	return copySparse(ctx, to, from, func() { p.step("copying") })
}

func (p *pool) sizeError(err error, sizeBytes int64) error {
	if errors.Is(err, syscall.EFBIG) || errors.Is(err, syscall.EINVAL) {
		return status.Errorf(codes.OutOfRange, "%d bytes exceeds the file size limit of the file system of %s",
			sizeBytes, p.dir)
	}
	return err
}

// Extend implements blockcsi.Pool. It extends the file and the loop device over it.
func (p *pool) Extend(_ context.Context, volume blockcsi.Volume, sizeBytes int64) error {
	if volume.Trouble != "" {
		return status.Errorf(codes.FailedPrecondition, "volume %s: %s", volume.ID, volume.Trouble)
	}
	if sizeBytes > volume.SizeBytes {
		if err := p.lengthen(volume, sizeBytes); err != nil {
			return p.status(p.sizeError(err, sizeBytes))
		}
		p.step("lengthened")
	}
	attached, err := p.findAttachment(volume.ID)
	if err != nil || attached == nil {
		return err
	}
	return p.status(loopdev.Grow(attached.Binding))
}

// lengthen extends an image. On an error the image keeps its length.
func (p *pool) lengthen(volume blockcsi.Volume, sizeBytes int64) error {
	more := int64(0)
	full := volume.Parameters[allocateKey] == allocateFull
	if full {
		more = sizeBytes - volume.SizeBytes
	}
	release, err := p.reserveSpace(more)
	if err != nil {
		return err
	}
	defer release()
	file, err := os.OpenFile(p.image(volume.ID), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	if full {
		err = allocate(file, volume.SizeBytes, more, false)
	} else {
		err = file.Truncate(sizeBytes)
	}
	if err == nil {
		return file.Sync()
	}
	return errors.Join(err, file.Truncate(volume.SizeBytes)) // some blocks may have been allocated
}
