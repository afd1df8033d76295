package loop

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/volsim/volsim/internal/loopdev"
	"github.com/volsim/volsim/plugins/blockcsi"
)

// Recover implements blockcsi.Pool: volumes whose making or removal had not ended
// are removed, drafts of others too; attached devices get the size and the
// settings of their volumes.
func (p *pool) Recover(ctx context.Context) (done []string, err error) {
	all, err := p.Volumes(ctx)
	for _, each := range all {
		if err != nil {
			return done, err
		}
		var did string
		if each.Unfinished {
			did, err = "removed "+each.ID+", whose making or removal had not ended", p.status(p.removeFiles(each.ID))
		} else {
			did, err = p.recoverOne(each)
		}
		if did != "" {
			done = append(done, did)
		}
	}
	return done, err
}

// recoverOne is Recover for a volume that is whole.
func (p *pool) recoverOne(volume blockcsi.Volume) (did string, err error) {
	for _, suffix := range []string{draftSuffix, recordDraftSuffix} {
		err := os.Remove(filepath.Join(p.dir, volume.ID+suffix))
		if err == nil {
			did = "removed the draft of a change of " + volume.ID
		} else if !errors.Is(err, fs.ErrNotExist) {
			return did, p.status(err)
		}
	}
	if volume.IsSnapshot() || volume.Trouble != "" {
		return did, nil
	}
	attached, err := p.findAttachment(volume.ID)
	if err != nil || attached == nil {
		return did, nil //nolint:nilerr // what is wrong with its device, whoever uses the volume is told
	}
	late, err := sizeDiffers(attached.Device, volume.SizeBytes)
	if err == nil && late {
		did, err = fmt.Sprintf("grew %s of %s", attached.Device, volume.ID), loopdev.Grow(attached.Bound)
	}
	if err != nil {
		return did, p.status(err)
	}
	changed, err := p.applySettings(volume)
	if changed {
		did = fmt.Sprintf("set %s as %s wants it", attached.Device, volume.ID)
	}
	return did, p.status(err)
}

// Orphans implements blockcsi.Pool. Of files, only those are told of whose names
// are the driver's.
func (p *pool) Orphans(ctx context.Context) ([]string, error) {
	all, err := p.Volumes(ctx)
	if err != nil {
		return nil, err
	}
	var orphans []string
	for _, each := range all {
		if each.Unfinished {
			orphans = append(orphans, fmt.Sprintf("%s is unfinished: start the driver again, or rm %s.*", each.ID, filepath.Join(p.dir, each.ID)))
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
			orphans = append(orphans, fmt.Sprintf("%s holds %s, which was removed: losetup -d %s frees it", each.Device, filepath.Base(each.BackingFile), each.Device))
		case !marked:
			orphans = append(orphans, fmt.Sprintf("%s holds %s and is marked %q by somebody else: losetup -d %s frees it", each.Device, filepath.Base(each.BackingFile), each.Mark, each.Device))
		}
	}
	return orphans, p.status(err)
}
