package csi

import (
	"context"
	"errors"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
)

// Watched reports whether VolumeAttachments show every change: always true, as the attacher writes
// its progress into them.
func (p *Plugin) Watched() bool { return true }

// LastSeen returns the state of the volume's VolumeAttachment on the node as the cache shows it. An
// object of that name that belongs to something else counts as none.
//
// Upstream: pkg/volume/csi csiAttacher.VolumesAreAttached (v1.36).
func (p *Plugin) LastSeen(volumeName string, node types.NodeName) plugins.AttachState {
	target, err := namedTarget(volumeName, node)
	if err != nil {
		return plugins.Detached
	}
	attachment := p.cachedAttachment(target)
	if attachment == nil {
		return plugins.Detached
	}
	return stateOf(attachment)
}

// Verify reads the volume's VolumeAttachment on the node from the API server. An object of that
// name that belongs to something else counts as none.
//
// Upstream: pkg/volume/csi csiAttacher.VolumesAreAttached (v1.36).
func (p *Plugin) Verify(
	ctx context.Context, _ *plugins.Spec, volumeName string, node types.NodeName,
) (plugins.AttachState, error) {
	target, err := namedTarget(volumeName, node)
	if err != nil {
		return plugins.Detached, err
	}
	attachment, err := p.storedAttachment(ctx, target)
	switch {
	case errors.Is(err, ErrForeignAttachment), err == nil && attachment == nil:
		return plugins.Detached, nil
	case err != nil:
		return plugins.Changing, err
	}
	return stateOf(attachment), nil
}

// stateOf returns the state of an attachment. One that is being deleted may be detached at any
// time.
func stateOf(attachment *storagev1.VolumeAttachment) plugins.AttachState {
	if attachment.DeletionTimestamp != nil || !attachment.Status.Attached {
		return plugins.Changing
	}
	return plugins.Attached
}
