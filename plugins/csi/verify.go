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
func (p *Plugin) LastSeen(volumeName string, node types.NodeName) plugins.AttachState {
	at, err := namedTarget(volumeName, node)
	if err != nil {
		return plugins.Detached
	}
	attachment := p.cachedAttachment(at)
	if attachment == nil {
		return plugins.Detached
	}
	return presence(attachment)
}

// Verify reads the volume's VolumeAttachment on the node itself. One of that name that is of something else is none.
//
// Upstream: pkg/volume/csi csiAttacher.VolumesAreAttached (v1.36).
func (p *Plugin) Verify(ctx context.Context, volumeName string, node types.NodeName) (plugins.AttachState, error) {
	at, err := namedTarget(volumeName, node)
	if err != nil {
		return plugins.Detached, err
	}
	attachment, err := p.storedAttachment(ctx, at)
	switch {
	case errors.Is(err, ErrForeignAttachment), err == nil && attachment == nil:
		return plugins.Detached, nil
	case err != nil:
		return plugins.Changing, err
	}
	return presence(attachment), nil
}

// presence reads an attachment: one that is being deleted may be detached at any time.
func presence(attachment *storagev1.VolumeAttachment) plugins.AttachState {
	if attachment.DeletionTimestamp != nil || !attachment.Status.Attached {
		return plugins.Changing
	}
	return plugins.Attached
}
