package blockcsi

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/volsim/volsim/internal/csireq"
)

// AttachmentRecords records which volumes are attached, for a pool whose devices are lost when the
// machine restarts. Volumes are not published again then, but stay attached to their node. A record
// is a symbolic link, VOLUME.attached, whose text holds the mode and the node. It is created in one
// step. It points nowhere. Records of one volume must not be changed concurrently.
type AttachmentRecords struct {
	Dir string // directory of the records, among other files
}

// AttachmentSuffix follows the volume's ID in the name of a record.
const AttachmentSuffix = ".attached"

const (
	recordWritable = "rw "
	recordReadOnly = "ro "
)

func (n AttachmentRecords) path(volumeID string) string {
	return filepath.Join(n.Dir, volumeID+AttachmentSuffix)
}

// Put durably records that a volume is attached. It reports false if that was recorded already.
func (n AttachmentRecords) Put(volumeID, node string, readOnly bool) (made bool, err error) {
	text := recordWritable + node
	if readOnly {
		text = recordReadOnly + node
	}
	err = os.Symlink(text, n.path(volumeID))
	if errors.Is(err, fs.ErrExist) {
		if recorded, readErr := os.Readlink(n.path(volumeID)); readErr == nil && recorded == text {
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

// Remove removes a volume's record, if there is one.
func (n AttachmentRecords) Remove(volumeID string) error {
	err := os.Remove(n.path(volumeID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, n.sync())
}

// Get returns the recorded attachment of a volume without its device, or nil.
func (n AttachmentRecords) Get(volumeID string) (*Attachment, error) {
	text, err := os.Readlink(n.path(volumeID))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EINVAL) { // not a link, so not a record
		return nil, nil //nolint:nilnil // none
	}
	if err != nil {
		return nil, err
	}
	node, writable := strings.CutPrefix(text, recordWritable)
	readOnly := false
	if !writable {
		node, readOnly = strings.CutPrefix(text, recordReadOnly)
	}
	if node == "" || !writable && !readOnly {
		return nil, fmt.Errorf("attachment record %s: %q is not of this version of the driver: "+
			"start the version that wrote it, or remove the link if the volume is not attached", n.path(volumeID), text)
	}
	return &Attachment{VolumeID: volumeID, Node: node, ReadOnly: !writable}, nil
}

// List returns the recorded attachments by volume, without their devices.
func (n AttachmentRecords) List() (map[string]Attachment, error) {
	entries, err := os.ReadDir(n.Dir)
	if err != nil {
		return nil, err
	}
	all := map[string]Attachment{}
	for _, entry := range entries {
		id, isRecord := strings.CutSuffix(entry.Name(), AttachmentSuffix)
		if !isRecord || !csireq.IsVolumeID(id) && !csireq.IsSnapshotID(id) {
			continue
		}
		recorded, err := n.Get(id)
		if err != nil {
			return nil, err
		}
		if recorded != nil { // else it was detached meanwhile
			all[id] = *recorded
		}
	}
	return all, nil
}

// sync makes the last changes durable.
func (n AttachmentRecords) sync() error {
	dir, err := os.Open(n.Dir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
