package loop

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/plugins/csireq"
)

const (
	mebibyte    = 1 << 20
	bytesMax    = 16 << 40     // what ext4 lets a file be, nearly; some hosts would take more
	fullBytes   = 1 * mebibyte // with less than this free, Dir counts as full
	imageSuffix = ".img"
	draftSuffix = ".img.draft"
)

// fsBytesMin are the file systems offered, and the size below which their
// mkfs refuses or leaves no room: for ext4 with a journal 16 MiB is ours, for
// xfs 300 MiB is mkfs.xfs's.
var fsBytesMin = map[string]int64{
	"ext2": 16 * mebibyte, "ext3": 16 * mebibyte, "ext4": 16 * mebibyte, "xfs": 300 * mebibyte,
}

func fsTypes() []string { return slices.Sorted(maps.Keys(fsBytesMin)) }

// sizesFor returns the rules for a volume's size: 64 MiB if nothing is asked,
// whole pages of 4 KiB, at least what its file systems need, and at most 16 TiB.
func sizesFor(capabilities []*csi.VolumeCapability) csireq.Sizes {
	sizes := csireq.Sizes{Default: 64 * mebibyte, Min: fsBytesMin["ext4"], Step: 4096, Max: bytesMax}
	for _, capability := range capabilities {
		sizes.Min = max(sizes.Min, fsBytesMin[capability.GetMount().GetFsType()])
	}
	return sizes
}

// image returns the path of a volume's file.
func (d *Driver) image(volumeID string) string { return filepath.Join(d.dir, volumeID+imageSuffix) }

// isImage tells whether a path is that of a volume of this driver.
func (d *Driver) isImage(file string) bool {
	id, ok := strings.CutSuffix(filepath.Base(file), imageSuffix)
	return ok && filepath.Dir(file) == d.dir && csireq.IsVolumeID(id)
}

// sizeOf returns the size of a volume in bytes, or NotFound.
func (d *Driver) sizeOf(volumeID string) (int64, error) {
	if csireq.IsVolumeID(volumeID) { // else the id could lead out of Dir
		info, err := os.Stat(d.image(volumeID))
		if err == nil {
			return info.Size(), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return 0, d.status(err)
		}
	}
	return 0, status.Errorf(codes.NotFound, "no volume %q in %s", volumeID, d.dir)
}

// makeImage makes the sparse file of a volume. It appears under its name only
// once it has its size, so a crash leaves no volume of the wrong one.
func (d *Driver) makeImage(volumeID string, sizeBytes int64) error {
	draft := filepath.Join(d.dir, volumeID+draftSuffix)
	file, err := os.OpenFile(draft, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return d.status(err)
	}
	err = errors.Join(file.Truncate(sizeBytes), file.Close())
	if err == nil {
		err = os.Rename(draft, d.image(volumeID))
	}
	if err == nil {
		return nil
	}
	_ = os.Remove(draft) // the first error tells more
	if errors.Is(err, syscall.EFBIG) || errors.Is(err, syscall.EINVAL) {
		return status.Errorf(codes.OutOfRange, "%d bytes is larger than the file system of %s lets a file be", sizeBytes, d.dir)
	}
	return d.status(err)
}

// imageIDs returns the sorted ids of all volumes.
func (d *Driver) imageIDs() ([]string, error) {
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return nil, d.status(err)
	}
	var ids []string
	for _, entry := range entries {
		if d.isImage(filepath.Join(d.dir, entry.Name())) {
			ids = append(ids, strings.TrimSuffix(entry.Name(), imageSuffix))
		}
	}
	return ids, nil
}
