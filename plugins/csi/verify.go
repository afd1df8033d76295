package csi

import (
	"context"
	"fmt"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
)

// LastSeen is what the cache shows of the volume's VolumeAttachment on the node.
//
// Upstream: pkg/volume/csi csiAttacher.VolumesAreAttached (v1.36).
func (p *Plugin) LastSeen(volumeName string, node types.NodeName) plugins.Presence {
	driver, handle, err := splitVolumeName(volumeName)
	if err != nil {
		return plugins.Absent
	}
	attachment, err := p.attachments.Get(AttachmentName(handle, driver, node))
	if err != nil {
		return plugins.Absent
	}
	return presence(attachment)
}

// Verify reads the volume's VolumeAttachment on the node itself.
//
// Upstream: pkg/volume/csi csiAttacher.VolumesAreAttached (v1.36).
func (p *Plugin) Verify(ctx context.Context, volumeName string, node types.NodeName) (plugins.Presence, error) {
	driver, handle, err := splitVolumeName(volumeName)
	if err != nil {
		return plugins.Absent, err
	}
	name := AttachmentName(handle, driver, node)
	attachment, err := p.cfg.Client.StorageV1().VolumeAttachments().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return plugins.Absent, nil
	case err != nil:
		return plugins.Changing, fmt.Errorf("get VolumeAttachment [%s]: %w", name, err)
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
