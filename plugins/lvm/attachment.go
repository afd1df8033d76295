package lvm

import (
	"context"

	"github.com/volsim/volsim/nodefs/lvm2"
	"github.com/volsim/volsim/plugins/blockcsi"
)

// A volume is attached while it has the tag. Without a device that is an attachment
// that was begun, or is nearly undone, or the machine was started again since: then
// it is to be activated. A device without the tag is that of a volume being made,
// or of a copy.

// Attach implements blockcsi.Pool.
func (p *pool) Attach(ctx context.Context, volume blockcsi.Volume, node string, isReadOnly bool) (blockcsi.Attachment, error) {
	lv, err := p.find(ctx, volume.ID)
	if err != nil {
		return blockcsi.Attachment{}, err
	}
	if was, is := attachedAs(lv); !is || was != isReadOnly {
		if err := p.group.Tag(ctx, lv.Name, []string{tagOf(isReadOnly)}, attachTags(lv)); err != nil {
			return blockcsi.Attachment{}, p.status(err)
		}
	}
	device, err := p.group.Activate(ctx, lv.Name)
	if err == nil {
		p.step("activated")
		err = setReadOnly(device, isReadOnly)
	}
	return blockcsi.Attachment{VolumeID: volume.ID, Node: node, Device: device, ReadOnly: isReadOnly}, p.status(err)
}

func tagOf(isReadOnly bool) string {
	if isReadOnly {
		return tagAttached + readOnly
	}
	return tagAttached + writable
}

// attachTags are the tags that say that a volume is attached.
func attachTags(lv lvm2.LogicalVolume) []string {
	if was, is := attachedAs(lv); is {
		return []string{tagOf(was)}
	}
	return nil
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
	isReadOnly, is := attachedAs(lv)
	if !is {
		return nil, nil
	}
	device, err := p.group.Device(ctx, lv.Name)
	return &blockcsi.Attachment{VolumeID: lv.Name, Node: p.node, Device: device, ReadOnly: isReadOnly}, p.status(err)
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
	var attached []blockcsi.Attachment
	for _, lv := range all {
		if isReadOnly, is := attachedAs(lv); is {
			attached = append(attached, blockcsi.Attachment{VolumeID: lv.Name, Node: p.node, Device: devices[lv.Name], ReadOnly: isReadOnly})
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
	return p.status(p.group.Tag(ctx, attached.VolumeID, nil, []string{tagOf(attached.ReadOnly)}))
}
