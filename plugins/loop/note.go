package loop

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/volsim/volsim/plugins/blockcsi"
)

// That a volume is attached is noted beside its file, since its device goes when the
// machine is started again, and nobody publishes it again then: for its node it still
// is attached. The note is a link whose text is how and to which node; it leads nowhere.
// It is there in one step, and whole.
const noteSuffix = ".attached"

const (
	noteWritable = "rw "
	noteReadOnly = "ro "
)

func (p *pool) notePath(volumeID string) string { return filepath.Join(p.dir, volumeID+noteSuffix) }

// note notes that a volume is attached, so that it stays noted when the machine loses power; false if it was.
func (p *pool) note(volumeID, node string, readOnly bool) (made bool, err error) {
	text := noteWritable + node
	if readOnly {
		text = noteReadOnly + node
	}
	err = os.Symlink(text, p.notePath(volumeID))
	if errors.Is(err, fs.ErrExist) {
		if was, readErr := os.Readlink(p.notePath(volumeID)); readErr == nil && was == text {
			return false, nil
		}
		if err = os.Remove(p.notePath(volumeID)); err == nil {
			err = os.Symlink(text, p.notePath(volumeID))
		}
	}
	if err != nil {
		return false, err
	}
	return true, p.syncDir()
}

// unnote takes the note away.
func (p *pool) unnote(volumeID string) error {
	err := os.Remove(p.notePath(volumeID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, p.syncDir())
}

// noted is the attachment that is noted of a volume, without its device; nil is none.
func (p *pool) noted(volumeID string) (*blockcsi.Attachment, error) {
	text, err := os.Readlink(p.notePath(volumeID))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EINVAL) { // no link is no note
		return nil, nil //nolint:nilnil // none
	}
	if err != nil {
		return nil, err
	}
	node, writable := strings.CutPrefix(text, noteWritable)
	if !writable {
		node = strings.TrimPrefix(text, noteReadOnly)
	}
	return &blockcsi.Attachment{VolumeID: volumeID, Node: node, ReadOnly: !writable}, nil
}

// allNoted are the attachments that are noted, without their devices, by volume.
func (p *pool) allNoted() (map[string]blockcsi.Attachment, error) {
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return nil, err
	}
	all := map[string]blockcsi.Attachment{}
	for _, entry := range entries {
		id, suffix, ok := ours(entry.Name())
		if !ok || suffix != noteSuffix {
			continue
		}
		noted, err := p.noted(id)
		if err != nil {
			return nil, err
		}
		if noted != nil { // else it was detached since
			all[id] = *noted
		}
	}
	return all, nil
}
