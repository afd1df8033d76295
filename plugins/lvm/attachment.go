package lvm

import (
	"context"

	"github.com/volsim/volsim/nodefs/lvm2"
	"github.com/volsim/volsim/plugins/blockcsi"
)

// A volume is attached while it has the tag and a device: the tag alone is an
// attachment that a reboot undid, the device alone is that of a copy being made.

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
	active, err := p.group.Active(ctx, lv.Name)
	if err != nil || active.Device == "" {
		return nil, p.status(err)
	}
	return &blockcsi.Attachment{VolumeID: lv.Name, Node: p.node, Device: active.Device, ReadOnly: isReadOnly}, nil
}

// Attachments implements blockcsi.Pool.
func (p *pool) Attachments(ctx context.Context) ([]blockcsi.Attachment, error) {
	all, err := p.group.List(ctx, tagOwned)
	if err != nil {
		return nil, p.status(err)
	}
	var attached []blockcsi.Attachment
	for _, lv := range all {
		one, err := p.attachment(ctx, lv)
		if err != nil {
			return nil, err
		}
		if one != nil {
			attached = append(attached, *one)
		}
	}
	return attached, nil
}

// Detach implements blockcsi.Pool.
func (p *pool) Detach(ctx context.Context, attached blockcsi.Attachment) error {
	if err := p.group.Deactivate(ctx, attached.VolumeID); err != nil {
		return p.status(err)
	}
	return p.status(p.group.Tag(ctx, attached.VolumeID, nil, []string{tagOf(attached.ReadOnly)}))
}
