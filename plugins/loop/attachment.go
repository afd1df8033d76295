package loop

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/blockcsi"
	"github.com/volsim/volsim/internal/loopdev"
)

const (
	markPrefix      = "volsim"
	volumeKeyDigits = 16
	nodeKeyDigits   = 12
	runIDCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
)

// attachment is a volume's attachment to a node.
type attachment struct {
	loopdev.Binding
	node string // the node's key in the mark
}

// mark returns the mark on the device of a volume on a node, of at most 63 bytes.
func (p *pool) mark(volumeID, nodeID string) string {
	return strings.Join([]string{
		markPrefix, p.runID,
		strings.TrimPrefix(volumeID, "vol-"),
		digest(nodeID, nodeKeyDigits),
	}, ":")
}

// findAttachment returns the attachment of an existing volume, or nil. For a device over the
// volume's file with a foreign mark, or over an older file of the same name, it returns
// FailedPrecondition. For one that is being detached it returns Aborted. If the last known
// attachment is unchanged, no other device is read.
func (p *pool) findAttachment(volumeID string) (*attachment, error) {
	if seen := p.cachedDevice(volumeID); seen != "" {
		bound, err := loopdev.At(seen)
		node, ours := p.nodeKey(bound.Mark, volumeID)
		if err == nil && ours && bound.BackingFile == p.image(volumeID) && !bound.Deleted && !bound.Autoclear {
			return &attachment{Binding: bound, node: node}, nil
		}
	}
	found, err := p.searchDevices(volumeID)
	device := ""
	if found != nil {
		device = found.Device
	}
	p.cacheDevice(volumeID, device)
	return found, err
}

// searchDevices works like findAttachment over all devices.
func (p *pool) searchDevices(volumeID string) (*attachment, error) {
	file := p.image(volumeID)
	loops, err := loopdev.List(func(backing string) bool { return backing == file })
	if err != nil {
		return nil, p.status(err)
	}
	var found *attachment
	for _, each := range loops {
		node, ours := p.nodeKey(each.Mark, volumeID)
		switch {
		case each.Deleted:
			return nil, status.Errorf(codes.FailedPrecondition,
				"%s holds an older file of volume %s that was removed: run losetup -d %s to detach it", each.Device,
				volumeID, each.Device)
		case !ours:
			return nil, status.Errorf(codes.FailedPrecondition,
				"volume %s is bound to %s with the foreign mark %q: run losetup -d %s to detach it", volumeID,
				each.Device, each.Mark, each.Device)
		case each.Autoclear:
			return nil, status.Errorf(codes.Aborted, "%s of volume %s is being detached: try again", each.Device,
				volumeID)
		}
		found = &attachment{Binding: each, node: node}
	}
	return found, nil
}

// cachedDevice returns the last known device of a volume, or "".
func (p *pool) cachedDevice(volumeID string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.devices[volumeID]
}

func (p *pool) cacheDevice(volumeID, device string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if device == "" {
		delete(p.devices, volumeID)
	} else {
		p.devices[volumeID] = device
	}
}

// RegisterNode implements blockcsi.Pool.
func (p *pool) RegisterNode(node string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nodes[digest(node, nodeKeyDigits)] = node
}

// Attach implements blockcsi.Pool. It binds the file to a loop device and applies the volume's
// settings. After a kill in between, Recover applies them. A persistent attachment is recorded
// first.
func (p *pool) Attach(
	ctx context.Context, volume blockcsi.Volume, node string, readOnly bool,
) (blockcsi.Attachment, error) {
	recorded := false
	if p.persistAttachments {
		var err error
		if recorded, err = p.attachments.Put(volume.ID, node, readOnly); err != nil {
			return blockcsi.Attachment{}, p.status(err)
		}
		p.step("noted")
	}
	device, err := loopdev.Bind(ctx, p.image(volume.ID), p.mark(volume.ID, node), readOnly)
	if err != nil {
		if recorded {
			err = errors.Join(err, p.attachments.Remove(volume.ID))
		}
		return blockcsi.Attachment{}, p.status(err)
	}
	p.cacheDevice(volume.ID, device)
	p.step("bound")
	if _, err := p.applySettingsTo(volume, device, false); err != nil {
		return blockcsi.Attachment{},
			errors.Join(p.status(err), p.Detach(context.WithoutCancel(ctx), blockcsi.Attachment{VolumeID: volume.ID}))
	}
	return blockcsi.Attachment{VolumeID: volume.ID, Node: node, Device: device, ReadOnly: readOnly}, nil
}

// applySettings applies the volume's parameters and settings to its device. It reports false if
// nothing changed or the volume is not attached.
func (p *pool) applySettings(volume blockcsi.Volume) (changed bool, err error) {
	attached, err := p.findAttachment(volume.ID)
	if err != nil || attached == nil {
		return false, err
	}
	return p.applySettingsTo(volume, attached.Device, attached.Direct)
}

// applySettingsTo works like applySettings for a known device. direct means that it already uses
// direct I/O.
func (p *pool) applySettingsTo(volume blockcsi.Volume, device string, direct bool) (changed bool, err error) {
	if volume.Parameters[directIOKey] == "true" && !direct {
		attached, err := p.findAttachment(volume.ID)
		if err != nil || attached == nil {
			return false, err
		}
		if err := loopdev.EnableDirectIO(attached.Binding); err != nil {
			return false, err
		}
		p.step("direct")
		changed = true
	}
	ahead, set := readAhead(volume.Settings)
	if !set {
		return changed, nil
	}
	did, err := setReadAhead(device, ahead)
	return changed || did, err
}

// Modify implements blockcsi.Pool.
func (p *pool) Modify(_ context.Context, volume blockcsi.Volume, settings map[string]string) error {
	recorded, err := p.readRecord(volume.ID)
	if err != nil {
		return p.status(err)
	}
	if recorded == nil || recorded.trouble != "" {
		return status.Errorf(codes.FailedPrecondition, "volume %s has no valid record to modify: %s", volume.ID,
			volume.Trouble)
	}
	if !maps.Equal(recorded.Settings, settings) {
		recorded.Settings = settings
		if err := errors.Join(p.replaceRecord(volume.ID, recorded), p.syncDir()); err != nil {
			return p.status(err)
		}
		p.step("settings")
	}
	volume.Settings = settings
	_, err = p.applySettings(volume)
	return p.status(err)
}

// Attachment implements blockcsi.Pool.
func (p *pool) Attachment(_ context.Context, volume blockcsi.Volume) (*blockcsi.Attachment, error) {
	found, err := p.findAttachment(volume.ID)
	if err != nil {
		return nil, err
	}
	if found == nil {
		recorded, err := p.attachments.Get(volume.ID)
		return recorded, p.status(err)
	}
	return &blockcsi.Attachment{
		VolumeID: volume.ID, Node: p.nodeName(found.node), Device: found.Device, ReadOnly: found.ReadOnly,
	}, nil
}

// Attachments implements blockcsi.Pool.
func (p *pool) Attachments(context.Context) ([]blockcsi.Attachment, error) {
	loops, err := loopdev.List(p.isImage)
	if err != nil {
		return nil, p.status(err)
	}
	recorded, err := p.attachments.List()
	if err != nil {
		return nil, p.status(err)
	}
	var all []blockcsi.Attachment
	for _, each := range loops {
		id := strings.TrimSuffix(filepath.Base(each.BackingFile), imageSuffix)
		if key, ours := p.nodeKey(each.Mark, id); ours {
			delete(recorded, id)
			all = append(all, blockcsi.Attachment{
				VolumeID: id, Node: p.nodeName(key), Device: each.Device, ReadOnly: each.ReadOnly,
			})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(recorded)) {
		all = append(all, recorded[id])
	}
	return all, nil
}

// Detach implements blockcsi.Pool.
func (p *pool) Detach(ctx context.Context, attached blockcsi.Attachment) error {
	found, err := p.findAttachment(attached.VolumeID)
	if err != nil {
		return err
	}
	if found != nil {
		if err := p.detach(ctx, found.Binding); err != nil {
			return err
		}
		p.cacheDevice(attached.VolumeID, "")
	}
	return p.status(p.attachments.Remove(attached.VolumeID))
}

// reset detaches the devices of a node's volumes and keeps the attachment records.
func (p *pool) reset(ctx context.Context, node string) error {
	loops, err := loopdev.List(p.isImage)
	if err != nil {
		return p.status(err)
	}
	for _, each := range loops {
		id := strings.TrimSuffix(filepath.Base(each.BackingFile), imageSuffix)
		if key, ours := p.nodeKey(each.Mark, id); !ours || key != digest(node, nodeKeyDigits) {
			continue
		}
		if err := p.detach(ctx, each); err != nil {
			return err
		}
		p.cacheDevice(id, "")
	}
	return nil
}

// nodeKey returns the node's key in a mark. It reports false if the mark is not of this run and
// volume.
func (p *pool) nodeKey(mark, volumeID string) (string, bool) {
	return strings.CutPrefix(mark, strings.TrimSuffix(p.mark(volumeID, ""), digest("", nodeKeyDigits)))
}

// nodeName returns the ID of the node with a key, if it is known.
func (p *pool) nodeName(key string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if id, ok := p.nodes[key]; ok {
		return id
	}
	return fmt.Sprintf("(unknown node, digest %s)", key)
}
