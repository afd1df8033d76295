package lvm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/volsim/volsim/internal/lvm2"
	"github.com/volsim/volsim/plugins/blockcsi"
)

// Recover implements blockcsi.Pool. What had been begun in the volume group is
// finished or undone as that is opened. Here, volumes that are not attached lose
// their devices, and attached ones get those as they are to be.
func (p *pool) Recover(ctx context.Context) (done []string, err error) {
	report, err := p.group.Report(ctx)
	if err != nil {
		return nil, p.status(err)
	}
	devices, err := p.group.Devices(ctx)
	if err != nil {
		return nil, p.status(err)
	}
	noted, err := p.attachments.List()
	if err != nil {
		return nil, p.status(err)
	}
	for id := range noted { // each is judged for itself: no order
		if _, is := report.Find(id); !is && !report.IsMoving(id) {
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
		if each, is := noted[lv.Name]; is {
			attached = &each
		}
		did, err := p.recoverOne(ctx, report, lv, device, attached)
		if did != "" {
			done = append(done, did)
		}
		if err != nil {
			return done, p.status(err)
		}
	}
	return done, nil
}

// recoverOne is Recover for a volume that has a device, and is attached or (nil) is
// not. A thick snapshot has one as long as its origin.
func (p *pool) recoverOne(
	ctx context.Context, report *lvm2.Report, lv lvm2.LogicalVolume, device string, attached *blockcsi.Attachment,
) (did string, err error) {
	if attached != nil {
		if _, err := p.group.Extend(ctx, lv.Name, lv.Size); err != nil { // the device may lag
			return "", err
		}
		return "", configureDevice(device, attached.ReadOnly, volumeOf(report, lv).Settings)
	}
	if lv.Layout == lvm2.Snapshot {
		return "", nil
	}
	err = p.group.Deactivate(ctx, lv.Name)
	if errors.Is(err, lvm2.ErrInUse) {
		return fmt.Sprintf("left %s, which is not attached, active as %s: somebody uses it", lv.Name, device), nil
	}
	return fmt.Sprintf("deactivated %s, which is not attached", lv.Name), err
}

// Orphans implements blockcsi.Pool: logical volumes in the driver's own volume
// group that are none of its volumes, volumes that are active and not attached,
// and loop devices of disks whose files were deleted.
func (p *pool) Orphans(ctx context.Context) ([]string, error) {
	report, err := p.group.Report(ctx)
	if err != nil {
		return nil, p.status(err)
	}
	devices, err := p.group.Devices(ctx)
	if err != nil {
		return nil, p.status(err)
	}
	noted, err := p.attachments.List()
	if err != nil {
		return nil, p.status(err)
	}
	var orphans []string
	for _, lv := range report.LogicalVolumes {
		_, attached := noted[lv.Name]
		name := p.group.Name() + "/" + lv.Name
		switch {
		case lv.Layout == lvm2.ThinPool && lv.Name == thinPool:
		case lv.HasTags(tagOwned) && !isOwn(lv):
			orphans = append(orphans, "logical volume "+name+" on node "+p.node+" is unfinished: start the driver again")
		case !isOwn(lv):
			orphans = append(orphans, "logical volume "+name+" on node "+p.node+" is none of the driver's: lvremove frees it")
		case devices[lv.Name] != "" && !attached && lv.Layout != lvm2.Snapshot:
			orphans = append(orphans, "logical volume "+name+" on node "+p.node+" is active and not attached: start the driver again")
		}
	}
	deleted, err := p.system.DeletedDisks()
	for _, each := range deleted {
		orphans = append(orphans, fmt.Sprintf("%s holds %s, which was removed: losetup -d %s frees it", each.Device, each.BackingFile, each.Device))
	}
	return orphans, p.status(err)
}

// destroy removes all that is in the volume group, and the group.
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
		err = errors.Join(os.RemoveAll(p.attachments.Dir), os.RemoveAll(filepath.Join(filepath.Dir(p.attachments.Dir), groupFile)))
	}
	if err == nil {
		err = p.group.RemoveGroup(ctx)
	}
	if err == nil {
		err = p.system.Detach(ctx)
	}
	return err
}
