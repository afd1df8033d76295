package loop

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/nodefs/loopdev"
	"github.com/volsim/volsim/plugins/blockcsi"
	"github.com/volsim/volsim/plugins/csireq"
)

const (
	mebibyte    = 1 << 20
	bytesMin    = 16 * mebibyte
	bytesMax    = 16 << 40 // what ext4 lets a file be, nearly; some hosts would take more
	imageSuffix = ".img"
	draftSuffix = ".img.draft"
)

// Node implements blockcsi.Pool.
func (p *pool) Node() string { return p.node }

// Abilities implements blockcsi.Pool.
func (p *pool) Abilities() blockcsi.Abilities {
	return blockcsi.Abilities{FSTypes: blockcsi.FSTypes()}
}

// Check implements blockcsi.Pool: there are no parameters and no settings.
func (p *pool) Check(parameters, settings map[string]string) error {
	for _, all := range []map[string]string{parameters, settings} {
		for key := range all {
			return status.Errorf(codes.InvalidArgument, "parameter %q is not one of this driver's", key)
		}
	}
	return nil
}

// Sizes implements blockcsi.Pool: 64 MiB if nothing is asked, whole pages of 4 KiB, at most 16 TiB.
func (p *pool) Sizes(map[string]string) csireq.Sizes {
	return csireq.Sizes{Default: 64 * mebibyte, Min: bytesMin, Step: 4096, Max: bytesMax}
}

// Room implements blockcsi.Pool: what is free below Dir. A larger volume can be
// made, thin as it is, but not filled.
func (p *pool) Room(context.Context, map[string]string) (blockcsi.Room, error) {
	free, err := freeBytes(p.dir)
	return blockcsi.Room{FreeBytes: free, LargestBytes: min(free, bytesMax), SmallestBytes: bytesMin}, p.status(err)
}

// image returns the path of a volume's file.
func (p *pool) image(id string) string { return filepath.Join(p.dir, id+imageSuffix) }

// isImage tells whether a path is that of a volume of this driver.
func (p *pool) isImage(file string) bool {
	id, ok := strings.CutSuffix(filepath.Base(file), imageSuffix)
	return ok && filepath.Dir(file) == p.dir && isOurs(id)
}

func isOurs(id string) bool { return csireq.IsVolumeID(id) || csireq.IsSnapshotID(id) }

// Volume implements blockcsi.Pool. A volume is whole once its file is there
// under its name; a record or a draft without it is one that is unfinished.
func (p *pool) Volume(_ context.Context, id string) (blockcsi.Volume, error) {
	if !isOurs(id) { // it could lead out of Dir
		return blockcsi.Volume{}, p.none(id)
	}
	recorded, err := p.readRecord(id)
	if err != nil {
		return blockcsi.Volume{}, p.status(err)
	}
	info, err := os.Stat(p.image(id))
	if errors.Is(err, fs.ErrNotExist) {
		if recorded == nil {
			return blockcsi.Volume{}, p.none(id)
		}
		return recorded.volume(id, 0, true), nil
	}
	if err != nil {
		return blockcsi.Volume{}, p.status(err)
	}
	if recorded == nil {
		recorded = &record{Created: info.ModTime()}
	}
	return recorded.volume(id, info.Size(), false), nil
}

func (p *pool) none(id string) error {
	return status.Errorf(codes.NotFound, "no volume %q in %s", id, p.dir)
}

// Volumes implements blockcsi.Pool.
func (p *pool) Volumes(ctx context.Context) ([]blockcsi.Volume, error) {
	ids, err := p.ids()
	if err != nil {
		return nil, err
	}
	var all []blockcsi.Volume
	for _, id := range ids {
		volume, err := p.Volume(ctx, id)
		switch {
		case err == nil:
			all = append(all, volume)
		case status.Code(err) != codes.NotFound: // else it was deleted since
			return nil, err
		}
	}
	return all, nil
}

// ids returns the sorted ids of all of which there is a file.
func (p *pool) ids() ([]string, error) {
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return nil, p.status(err)
	}
	var ids []string
	for _, entry := range entries {
		id, _, _ := strings.Cut(entry.Name(), ".")
		if isOurs(id) {
			ids = append(ids, id)
		}
	}
	return slices.Compact(ids), nil // ReadDir sorts
}

// Create implements blockcsi.Pool. First there is a record of it; the file
// appears under its name only once it has its size and its content.
func (p *pool) Create(_ context.Context, wish blockcsi.Wish) (blockcsi.Volume, error) {
	recorded, err := p.writeRecord(wish)
	if err == nil {
		err = p.makeImage(wish.ID, wish.SizeBytes)
	}
	if err != nil {
		_ = p.removeFiles(wish.ID) // the first error tells more
		return blockcsi.Volume{}, p.status(err)
	}
	return recorded.volume(wish.ID, wish.SizeBytes, false), nil
}

func (p *pool) makeImage(id string, sizeBytes int64) error {
	draft := filepath.Join(p.dir, id+draftSuffix)
	file, err := os.OpenFile(draft, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = errors.Join(file.Truncate(sizeBytes), file.Close())
	if err == nil {
		err = os.Rename(draft, p.image(id))
	}
	if errors.Is(err, syscall.EFBIG) || errors.Is(err, syscall.EINVAL) {
		return status.Errorf(codes.OutOfRange, "%d bytes is larger than the file system of %s lets a file be", sizeBytes, p.dir)
	}
	return err
}

// Delete implements blockcsi.Pool.
func (p *pool) Delete(_ context.Context, volume blockcsi.Volume) error {
	return p.status(p.removeFiles(volume.ID))
}

// removeFiles removes the files of a volume, the record last: until then it is unfinished.
func (p *pool) removeFiles(id string) error {
	for _, suffix := range []string{imageSuffix, draftSuffix, recordDraftSuffix, recordSuffix} {
		if err := os.Remove(filepath.Join(p.dir, id+suffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Extend implements blockcsi.Pool: the file becomes longer, and the device that
// it is bound to has all of it.
func (p *pool) Extend(_ context.Context, volume blockcsi.Volume, sizeBytes int64) error {
	if sizeBytes > volume.SizeBytes {
		if err := os.Truncate(p.image(volume.ID), sizeBytes); err != nil {
			return p.status(err)
		}
	}
	attached, err := p.found(volume.ID)
	if err != nil || attached == nil {
		return err
	}
	return p.status(loopdev.Grow(attached.Bound))
}

// Modify implements blockcsi.Pool.
func (p *pool) Modify(context.Context, blockcsi.Volume, map[string]string) error {
	return status.Error(codes.Unimplemented, "volumes are not modified")
}

// Recover implements blockcsi.Pool.
func (p *pool) Recover(ctx context.Context) ([]string, error) {
	all, err := p.Volumes(ctx)
	var done []string
	for _, each := range all {
		if err == nil && each.Unfinished {
			err = p.Delete(ctx, each)
			done = append(done, "removed "+each.ID+", whose making or removal had not ended")
		}
	}
	return done, err
}

// Orphans implements blockcsi.Pool.
func (p *pool) Orphans(context.Context) ([]string, error) {
	loops, err := loopdev.List(p.isImage)
	var orphans []string
	for _, each := range loops {
		if each.Deleted {
			orphans = append(orphans, each.Device+" holds "+filepath.Base(each.Backing)+", which was removed: losetup -d "+each.Device+" frees it")
		}
	}
	return orphans, p.status(err)
}
