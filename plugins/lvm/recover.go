package lvm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/volsim/volsim/internal/blockcsi"
	"github.com/volsim/volsim/internal/lvm2"
)

// Recover implements blockcsi.Pool. Opening the volume group has recovered LVM's metadata. Recover
// deactivates volumes that are not attached, and applies size and settings to the devices of those
// that are.
func (p *pool) Recover(ctx context.Context) (done []string, err error) {
	report, err := p.group.Report(ctx)
	if err != nil {
		return nil, p.status(err)
	}
	devices, err := p.group.Devices(ctx)
	if err != nil {
		return nil, p.status(err)
	}
	recorded, err := p.attachments.List()
	if err != nil {
		return nil, p.status(err)
	}
	for id := range recorded { // the order does not matter
		if _, found := report.Find(id); !found && !report.IsMoving(id) {
			if err := p.attachments.Remove(id); err != nil {
				return nil, p.status(err)
			}
		}
	}
	for _, lv := range report.LogicalVolumes {
		device := devices[lv.Name]
		if device == "" || !isOwn(lv) {
			continue
		}
		var attached *blockcsi.Attachment
		if each, found := recorded[lv.Name]; found {
			attached = &each
		}
		action, err := p.recoverOne(ctx, report, lv, device, attached)
		if action != "" {
			done = append(done, action)
		}
		if err != nil {
			return done, p.status(err)
		}
	}
	return done, nil
}

// recoverOne works like Recover for a volume with a device; attached is nil if it is not attached.
// A thick snapshot is active as long as its origin.
func (p *pool) recoverOne(
	ctx context.Context, report *lvm2.Report, lv lvm2.LogicalVolume, device string, attached *blockcsi.Attachment,
) (action string, err error) {
	if attached != nil {
		if _, err := p.group.Extend(ctx, lv.Name, lv.Size); err != nil { // the device may be smaller
			return "", err
		}
		return "", configureDevice(device, attached.ReadOnly, volumeOf(report, lv).Settings)
	}
	if lv.Layout == lvm2.Snapshot {
		return "", nil
	}
	err = p.group.Deactivate(ctx, lv.Name)
	if errors.Is(err, lvm2.ErrInUse) {
		return fmt.Sprintf("left %s active as %s, although it is not attached: the device is in use", lv.Name, device),
			nil
	}
	return fmt.Sprintf("deactivated %s, which is not attached", lv.Name), err
}

// Orphans implements blockcsi.Pool. It lists logical volumes of the volume group that are not the
// driver's, active volumes that are not attached, and loop devices of deleted disk files.
func (p *pool) Orphans(ctx context.Context) ([]string, error) {
	report, err := p.group.Report(ctx)
	if err != nil {
		return nil, p.status(err)
	}
	devices, err := p.group.Devices(ctx)
	if err != nil {
		return nil, p.status(err)
	}
	recorded, err := p.attachments.List()
	if err != nil {
		return nil, p.status(err)
	}
	var orphans []string
	for _, lv := range report.LogicalVolumes {
		_, attached := recorded[lv.Name]
		name := p.group.Name() + "/" + lv.Name
		switch {
		case lv.Layout == lvm2.ThinPool && lv.Name == thinPool:
		case lv.HasTags(tagOwned) && !isOwn(lv):
			orphans = append(orphans, "logical volume "+name+" on node "+p.node+" is unfinished: restart the driver")
		case !isOwn(lv):
			orphans = append(orphans, "logical volume "+name+" on node "+p.node+
				" does not belong to the driver: run lvremove to remove it")
		case devices[lv.Name] != "" && !attached && lv.Layout != lvm2.Snapshot:
			orphans = append(orphans, "logical volume "+name+" on node "+p.node+
				" is active but not attached: restart the driver")
		}
	}
	deleted, err := p.system.DeletedDisks()
	for _, each := range deleted {
		orphans = append(orphans, fmt.Sprintf("%s holds %s, which was removed: run losetup -d %s to detach it",
			each.Device, each.BackingFile, each.Device))
	}
	return orphans, p.status(err)
}

// releaseDisks removes the loop devices of the disks unless a volume has a device. Volumes of a
// volume group that cannot be read may have one.
func (p *pool) releaseDisks(ctx context.Context) error {
	if len(p.system.Disks()) == 0 {
		return nil
	}
	devices, err := p.group.Devices(ctx)
	if err != nil {
		return nil //nolint:nilerr // disks are missing, which every call reports
	}
	for name := range devices { // the order does not matter
		if name != thinPool {
			return nil
		}
	}
	return p.system.Detach(ctx)
}

// destroy removes everything in the volume group, and the group.
func (p *pool) destroy(ctx context.Context) error {
	all, err := p.group.List(ctx)
	if err != nil {
		return err
	}
	var names []string
	for _, lv := range all {
		names = append(names, lv.Name)
	}
	if len(names) > 0 {
		err = p.group.Remove(ctx, names...)
	}
	if err == nil {
		err = errors.Join(os.RemoveAll(p.attachments.Dir),
			os.RemoveAll(filepath.Join(filepath.Dir(p.attachments.Dir), groupFile)))
	}
	if err == nil {
		err = p.group.RemoveGroup(ctx)
	}
	if err == nil {
		err = p.system.Detach(ctx)
	}
	return err
}
