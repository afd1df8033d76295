package csi

import (
	"context"
	"errors"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
)

// Watched is true: the attacher writes what it does into the VolumeAttachment.
func (p *Plugin) Watched() bool { return true }

// LastSeen is what the cache shows of the volume's VolumeAttachment on the node. One of that name that is of something else is none.
//
// Upstream: pkg/volume/csi csiAttacher.VolumesAreAttached (v1.36).
func (p *Plugin) LastSeen(volumeName string, node types.NodeName) plugins.Presence {
	at, err := namedPlace(volumeName, node)
	if err != nil {
		return plugins.Absent
	}
	attachment := p.seenAt(at)
	if attachment == nil {
		return plugins.Absent
	}
	return presence(attachment)
}

// Verify reads the volume's VolumeAttachment on the node itself. One of that name that is of something else is none.
//
// Upstream: pkg/volume/csi csiAttacher.VolumesAreAttached (v1.36).
func (p *Plugin) Verify(ctx context.Context, volumeName string, node types.NodeName) (plugins.Presence, error) {
	at, err := namedPlace(volumeName, node)
	if err != nil {
		return plugins.Absent, err
	}
	attachment, err := p.storedAt(ctx, at)
	switch {
	case errors.Is(err, ErrOthersAttachment), err == nil && attachment == nil:
		return plugins.Absent, nil
	case err != nil:
		return plugins.Changing, err
	}
	return presence(attachment), nil
}

// presence reads an attachment: one that is being deleted may be detached at any time.
func presence(attachment *storagev1.VolumeAttachment) plugins.Presence {
	if attachment.DeletionTimestamp != nil || !attachment.Status.Attached {
		return plugins.Changing
	}
	return plugins.Present
}
