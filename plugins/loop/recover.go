package loop

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/volsim/volsim/internal/blockcsi"
	"github.com/volsim/volsim/internal/loopdev"
)

// Recover implements blockcsi.Pool. It removes unfinished volumes and drafts, and applies the size
// and the settings of attached volumes to their devices.
func (p *pool) Recover(ctx context.Context) (done []string, err error) {
	all, err := p.Volumes(ctx)
	for _, each := range all {
		if err != nil {
			return done, err
		}
		var action string
		if each.Unfinished {
			action, err = "removed "+each.ID+
				", whose creation or removal was interrupted", p.status(p.removeFiles(each.ID))
		} else {
			action, err = p.recoverOne(each)
		}
		if action != "" {
			done = append(done, action)
		}
	}
	return done, err
}

// recoverOne works like Recover for a complete volume.
func (p *pool) recoverOne(volume blockcsi.Volume) (action string, err error) {
	for _, suffix := range []string{draftSuffix, recordDraftSuffix} {
		err := os.Remove(filepath.Join(p.dir, volume.ID+suffix))
		if err == nil {
			action = "removed an unfinished change of " + volume.ID
		} else if !errors.Is(err, fs.ErrNotExist) {
			return action, p.status(err)
		}
	}
	if volume.IsSnapshot() || volume.Trouble != "" {
		return action, nil
	}
	attached, err := p.findAttachment(volume.ID)
	if err != nil || attached == nil {
		return action, nil //nolint:nilerr // users of the volume get the error of its device
	}
	late, err := sizeDiffers(attached.Device, volume.SizeBytes)
	if err == nil && late {
		action, err = fmt.Sprintf("grew %s of %s", attached.Device, volume.ID), loopdev.Grow(attached.Binding)
	}
	if err != nil {
		return action, p.status(err)
	}
	changed, err := p.applySettings(volume)
	if changed {
		action = fmt.Sprintf("applied the settings of %[2]s to %[1]s", attached.Device, volume.ID)
	}
	return action, p.status(err)
}

// Orphans implements blockcsi.Pool. It ignores files whose names are not the driver's.
func (p *pool) Orphans(ctx context.Context) ([]string, error) {
	all, err := p.Volumes(ctx)
	if err != nil {
		return nil, err
	}
	var orphans []string
	for _, each := range all {
		if each.Unfinished {
			orphans = append(orphans, fmt.Sprintf("%s is unfinished: restart the driver, or run rm %s.*", each.ID,
				filepath.Join(p.dir, each.ID)))
		}
		if each.Trouble != "" {
			orphans = append(orphans, each.ID+": "+each.Trouble)
		}
	}
	loops, err := loopdev.List(p.isImage)
	for _, each := range loops {
		id, _, _ := parseName(filepath.Base(each.BackingFile))
		switch _, marked := p.nodeKey(each.Mark, id); {
		case each.Deleted:
			orphans = append(orphans, fmt.Sprintf("%s holds %s, which was removed: run losetup -d %s to detach it",
				each.Device, filepath.Base(each.BackingFile), each.Device))
		case !marked:
			orphans = append(orphans,
				fmt.Sprintf("%s holds %s and has the foreign mark %q: run losetup -d %s to detach it", each.Device,
					filepath.Base(each.BackingFile), each.Mark, each.Device))
		}
	}
	return orphans, p.status(err)
}
