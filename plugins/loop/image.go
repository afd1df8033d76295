package loop

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/blockcsi"
	"github.com/volsim/volsim/internal/csireq"
)

const (
	mebibyte    = 1 << 20
	bytesMin    = 16 * mebibyte
	bytesMax    = 16 << 40 // nearly the largest file on ext4; other file systems support more
	imageSuffix = ".img"
	draftSuffix = ".img.draft"
)

// suffixes are the suffixes of a volume's files in the order of their removal. Without its image, a
// volume with a record is unfinished.
var suffixes = []string{imageSuffix, draftSuffix, recordDraftSuffix, blockcsi.AttachmentSuffix, recordSuffix}

// Node implements blockcsi.Pool.
func (p *pool) Node() string { return p.node }

// Capabilities implements blockcsi.Pool.
func (p *pool) Capabilities() blockcsi.Capabilities {
	return blockcsi.Capabilities{
		FSTypes: blockcsi.FSTypes(), CanCopy: true, AtomicCopies: p.reflink, PersistentAttach: p.persistAttachments,
		Settings: []string{discardKey, readAheadKey},
	}
}

// Sizes implements blockcsi.Pool: 64 MiB by default, multiples of 4 KiB, at most 16 TiB.
func (p *pool) Sizes(map[string]string) csireq.Sizes {
	return csireq.Sizes{Default: 64 * mebibyte, Min: bytesMin, Step: 4096, Max: bytesMax}
}

// image returns the path of a volume's file.
func (p *pool) image(id string) string { return filepath.Join(p.dir, id+imageSuffix) }

// isImage reports whether a path is that of an image of this driver.
func (p *pool) isImage(file string) bool {
	id, ok := strings.CutSuffix(filepath.Base(file), imageSuffix)
	return ok && filepath.Dir(file) == p.dir && isOwnID(id)
}

func isOwnID(id string) bool { return csireq.IsVolumeID(id) || csireq.IsSnapshotID(id) }

// parseName splits the name of a file in Dir. It reports false for a name that is not the driver's.
func parseName(name string) (id, suffix string, ok bool) {
	id, _, _ = strings.Cut(name, ".")
	suffix = strings.TrimPrefix(name, id)
	return id, suffix, isOwnID(id) && slices.Contains(suffixes, suffix)
}

// Volume implements blockcsi.Pool. A volume is complete if its image exists. It is unfinished if
// only other files of it exist.
func (p *pool) Volume(_ context.Context, id string) (blockcsi.Volume, error) {
	if !isOwnID(id) { // it could lead out of Dir
		return blockcsi.Volume{}, p.notFound(id)
	}
	recorded, err := p.readRecord(id)
	if err != nil {
		return blockcsi.Volume{}, p.status(err)
	}
	info, err := os.Lstat(p.image(id))
	if errors.Is(err, fs.ErrNotExist) {
		return p.unfinished(id, recorded)
	}
	if err != nil {
		return blockcsi.Volume{}, p.status(err)
	}
	if recorded == nil { // it may have been created since
		if recorded, err = p.readRecord(id); err != nil {
			return blockcsi.Volume{}, p.status(err)
		}
	}
	if recorded == nil {
		recorded = &record{Created: info.ModTime()}
	}
	volume := recorded.volume(id, info.Size(), false)
	if !info.Mode().IsRegular() {
		volume.Trouble = fmt.Sprintf("%s is not a regular file: move it away", p.image(id))
	}
	return volume, nil
}

// unfinished returns a volume without an image.
func (p *pool) unfinished(id string, recorded *record) (blockcsi.Volume, error) {
	if recorded != nil {
		return recorded.volume(id, 0, true), nil
	}
	for _, suffix := range []string{draftSuffix, recordDraftSuffix, blockcsi.AttachmentSuffix} {
		if _, err := os.Lstat(filepath.Join(p.dir, id+suffix)); err == nil {
			return record{}.volume(id, 0, true), nil
		}
	}
	return blockcsi.Volume{}, p.notFound(id)
}

func (p *pool) notFound(id string) error {
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
		case status.Code(err) != codes.NotFound: // else it was deleted meanwhile
			return nil, err
		}
	}
	return all, nil
}

// ids returns the sorted IDs of all volumes with any file.
func (p *pool) ids() ([]string, error) {
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return nil, p.status(err)
	}
	var ids []string
	for _, entry := range entries {
		if id, _, ok := parseName(entry.Name()); ok {
			ids = append(ids, id)
		}
	}
	return slices.Compact(ids), nil // ReadDir sorts
}

// Delete implements blockcsi.Pool.
func (p *pool) Delete(_ context.Context, volume blockcsi.Volume) error {
	if volume.Trouble != "" && !volume.Unfinished {
		return status.Errorf(codes.FailedPrecondition, "volume %s: %s", volume.ID, volume.Trouble)
	}
	return p.status(p.removeFiles(volume.ID))
}

// removeFiles durably removes the files of a volume.
func (p *pool) removeFiles(id string) error {
	for _, suffix := range suffixes {
		if err := os.Remove(filepath.Join(p.dir, id+suffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		p.step("removed " + suffix)
	}
	return p.syncDir()
}

// syncDir makes the last changes in Dir durable.
func (p *pool) syncDir() error {
	dir, err := os.Open(p.dir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
