package blockcsi

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/volsim/volsim/plugins/internal/csireq"
)

// AttachmentRecords say which volumes are attached, for a pool whose devices go when the machine is
// started again: nobody publishes a volume again then, and for its node it still is
// attached. A note is a link, VOLUME.attached, whose text is how and to which node; it
// leads nowhere. It is there in one step, and whole. Notes of one volume are not changed
// concurrently.
type AttachmentRecords struct {
	Dir string // where they are, among other files
}

// AttachmentSuffix is what the name of a note has behind the volume's ID.
const AttachmentSuffix = ".attached"

const (
	recordWritable = "rw "
	recordReadOnly = "ro "
)

func (n AttachmentRecords) path(volumeID string) string {
	return filepath.Join(n.Dir, volumeID+AttachmentSuffix)
}

// Put notes that a volume is attached, so that it stays noted when the machine loses
// power; false if it was.
func (n AttachmentRecords) Put(volumeID, node string, readOnly bool) (made bool, err error) {
	text := recordWritable + node
	if readOnly {
		text = recordReadOnly + node
	}
	err = os.Symlink(text, n.path(volumeID))
	if errors.Is(err, fs.ErrExist) {
		if was, readErr := os.Readlink(n.path(volumeID)); readErr == nil && was == text {
			return false, nil
		}
		if err = os.Remove(n.path(volumeID)); err == nil {
			err = os.Symlink(text, n.path(volumeID))
		}
	}
	if err != nil {
		return false, err
	}
	return true, n.sync()
}

// Remove takes a volume's note away. It is no error that there is none.
func (n AttachmentRecords) Remove(volumeID string) error {
	err := os.Remove(n.path(volumeID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, n.sync())
}

// Get returns the attachment that is noted of a volume, without its device; nil is none.
func (n AttachmentRecords) Get(volumeID string) (*Attachment, error) {
	text, err := os.Readlink(n.path(volumeID))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EINVAL) { // no link is no note
		return nil, nil //nolint:nilnil // none
	}
	if err != nil {
		return nil, err
	}
	node, writable := strings.CutPrefix(text, recordWritable)
	if !writable {
		node = strings.TrimPrefix(text, recordReadOnly)
	}
	return &Attachment{VolumeID: volumeID, Node: node, ReadOnly: !writable}, nil
}

// List returns the attachments that are noted, without their devices, by volume.
func (n AttachmentRecords) List() (map[string]Attachment, error) {
	entries, err := os.ReadDir(n.Dir)
	if err != nil {
		return nil, err
	}
	all := map[string]Attachment{}
	for _, entry := range entries {
		id, is := strings.CutSuffix(entry.Name(), AttachmentSuffix)
		if !is || !csireq.IsVolumeID(id) && !csireq.IsSnapshotID(id) {
			continue
		}
		noted, err := n.Get(id)
		if err != nil {
			return nil, err
		}
		if noted != nil { // else it was detached since
			all[id] = *noted
		}
	}
	return all, nil
}

// sync makes what was made and removed last.
func (n AttachmentRecords) sync() error {
	dir, err := os.Open(n.Dir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
