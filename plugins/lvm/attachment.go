package lvm

import (
	"context"
	"errors"

	"github.com/volsim/volsim/internal/blockcsi"
	"github.com/volsim/volsim/internal/lvm2"
)

// A volume is attached if it is recorded in the directory of the private LVM. A tag would make LVM
// rewrite all of its metadata. A recorded attachment without a device was interrupted, or the
// machine was restarted since; the volume must then be activated. A device without a record belongs
// to a volume that is being created or copied.

// attachmentsFolder is the directory of the records, below the private LVM's directory.
const attachmentsFolder = "attached"

// Attach implements blockcsi.Pool. On an error the volume is unchanged.
func (p *pool) Attach(
	ctx context.Context, volume blockcsi.Volume, node string, isReadOnly bool,
) (blockcsi.Attachment, error) {
	lv, err := p.find(ctx, volume.ID)
	if err != nil {
		return blockcsi.Attachment{}, err
	}
	recorded, err := p.attachments.Put(lv.Name, node, isReadOnly)
	if err != nil {
		return blockcsi.Attachment{}, p.status(err)
	}
	p.step("noted")
	device, err := p.group.Activate(ctx, lv.Name)
	switch {
	case err == nil:
		p.step("activated")
		err = configureDevice(device, isReadOnly, volume.Settings)
	case recorded:
		err = errors.Join(err, p.attachments.Remove(lv.Name))
	}
	return blockcsi.Attachment{VolumeID: volume.ID, Node: node, Device: device, ReadOnly: isReadOnly}, p.status(err)
}

// Attachment implements blockcsi.Pool.
func (p *pool) Attachment(ctx context.Context, volume blockcsi.Volume) (*blockcsi.Attachment, error) {
	lv, err := p.find(ctx, volume.ID)
	if err != nil {
		return nil, err
	}
	return p.attachment(ctx, lv)
}

func (p *pool) attachment(ctx context.Context, lv lvm2.LogicalVolume) (*blockcsi.Attachment, error) {
	recorded, err := p.attachments.Get(lv.Name)
	if err != nil || recorded == nil {
		return nil, p.status(err)
	}
	recorded.Node = p.node // its disks may come from another node
	recorded.Device, err = p.group.Device(ctx, lv.Name)
	return recorded, p.status(err)
}

// Attachments implements blockcsi.Pool.
func (p *pool) Attachments(ctx context.Context) ([]blockcsi.Attachment, error) {
	all, err := p.group.List(ctx, tagOwned)
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
	var attached []blockcsi.Attachment
	for _, lv := range all {
		if each, found := recorded[lv.Name]; found {
			each.Node, each.Device = p.node, devices[lv.Name]
			attached = append(attached, each)
		}
	}
	return attached, nil
}

// Detach implements blockcsi.Pool.
func (p *pool) Detach(ctx context.Context, attached blockcsi.Attachment) error {
	if err := p.group.Deactivate(ctx, attached.VolumeID); err != nil {
		return p.status(err)
	}
	p.step("deactivated")
	return p.status(p.attachments.Remove(attached.VolumeID))
}
