package csi

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
)

// ErrForeignAttachment is matched by the error for a volume whose VolumeAttachment cannot be
// created or trusted, because the object of that name belongs to another volume, driver or node.
var ErrForeignAttachment = errors.New("name is taken")

// An attachTarget is a volume on a node: what a VolumeAttachment is about.
type attachTarget struct {
	driver, handle string // the handle is empty if unknown
	node           types.NodeName
	pvName         string // the PersistentVolume's name; empty for an inline volume, and if unknown
	name           string // of the VolumeAttachment that the target must have; empty if derived from a VolumeAttachment
}

// targetOf returns the target for the volume on the node.
func targetOf(spec *plugins.Spec, node types.NodeName) (attachTarget, error) {
	source, err := sourceOf(spec)
	if err != nil {
		return attachTarget{}, err
	}
	target := newTarget(source.Driver, source.VolumeHandle, node)
	if !spec.Inline {
		target.pvName = spec.PersistentVolume.Name
	}
	return target, nil
}

// namedTarget returns the target for a volume of which only the name is known.
func namedTarget(volumeName string, node types.NodeName) (attachTarget, error) {
	driver, handle, err := splitVolumeName(volumeName)
	return newTarget(driver, handle, node), err
}

func newTarget(driver, handle string, node types.NodeName) attachTarget {
	return attachTarget{driver: driver, handle: handle, node: node, name: AttachmentName(handle, driver, node)}
}

// String returns the target in words.
func (p attachTarget) String() string {
	switch {
	case p.handle != "":
		return fmt.Sprintf("volume %s of driver %s on node %s", p.handle, p.driver, p.node)
	case p.pvName != "":
		return fmt.Sprintf("PersistentVolume %s of driver %s on node %s", p.pvName, p.driver, p.node)
	default:
		return fmt.Sprintf("a volume of driver %s on node %s", p.driver, p.node)
	}
}

// matches reports whether the target of a VolumeAttachment is this one. If the object has this
// target's name, driver and node, it also has its handle, provided that its name was derived
// correctly. So an unknown handle counts as equal.
func (p attachTarget) matches(attached attachTarget) bool {
	return attached.driver == p.driver && attached.node == p.node &&
		(attached.handle == "" || attached.handle == p.handle || p.pvName != "" && attached.pvName == p.pvName)
}

// ambiguous reports whether the PersistentVolume must be read to decide whether attached is this
// target.
func (p attachTarget) ambiguous(attached attachTarget) bool {
	return p.matches(attached) && attached.handle == "" && attached.pvName != "" && attached.pvName != p.pvName
}

// mismatch returns the error for a VolumeAttachment that has this target's name but belongs to
// another, or nil.
//
// Differs: upstream checks only the name, which is a digest of handle, driver and node
// concatenated. Handle ab of driver c and handle a of driver bc have the same name (I21).
func (p attachTarget) mismatch(attached attachTarget) error {
	if p.matches(attached) {
		return nil
	}
	return &plugins.Error{Class: plugins.Final, Err: fmt.Errorf("VolumeAttachment %s is of %s, not of %s: %w",
		p.name, attached, p, ErrForeignAttachment)}
}

// withSource adds the volume source of the PersistentVolume, or of an inline volume. A volume that
// the attacher cannot attach matches no target.
func (p attachTarget) withSource(volume *corev1.PersistentVolume) attachTarget {
	source := volume.Spec.CSI
	if source == nil {
		if spec, err := migrated.Translate(&plugins.Spec{PersistentVolume: volume}, ""); err == nil {
			source = spec.PersistentVolume.Spec.CSI
		}
	}
	switch {
	case source == nil:
		p.driver = "none, attacher " + p.driver
	case source.Driver != p.driver:
		p.driver, p.handle = source.Driver+", attacher "+p.driver, source.VolumeHandle
	default:
		p.handle = source.VolumeHandle
	}
	return p
}

// migrated are the plugins whose volumes have VolumeAttachments too.
var migrated = plugins.Migrated()

// cachedTarget returns the target of a VolumeAttachment as far as the cache tells.
func (p *Plugin) cachedTarget(attachment *storagev1.VolumeAttachment) attachTarget {
	target := attachTarget{driver: attachment.Spec.Attacher, node: types.NodeName(attachment.Spec.NodeName)}
	source := attachment.Spec.Source
	if source.InlineVolumeSpec != nil {
		return target.withSource(&corev1.PersistentVolume{Spec: *source.InlineVolumeSpec})
	}
	if source.PersistentVolumeName == nil {
		return target
	}
	target.pvName = *source.PersistentVolumeName
	if p.volumes == nil {
		return target
	}
	volume, found, err := p.volumes.GetByKey(target.pvName)
	if !found || err != nil {
		return target
	}
	return target.withSource(volume.(*corev1.PersistentVolume))
}

// checkTarget checks that a VolumeAttachment that has the target's name belongs to it; otherwise
// the error matches ErrForeignAttachment. It leaves the process if the cache does not tell. A
// VolumeAttachment whose PersistentVolume no longer exists passes the check.
func (p *Plugin) checkTarget(ctx context.Context, target attachTarget, attachment *storagev1.VolumeAttachment) error {
	attached := p.cachedTarget(attachment)
	if !target.ambiguous(attached) {
		return target.mismatch(attached)
	}
	volume, err := p.cfg.Client.CoreV1().PersistentVolumes().Get(ctx, attached.pvName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("get PersistentVolume %s of VolumeAttachment %s: %w", attached.pvName, attachment.Name, err)
	}
	return target.mismatch(attached.withSource(volume))
}

// cachedAttachment returns the target's VolumeAttachment from the cache. It returns nil if there is
// none or it belongs to another target.
func (p *Plugin) cachedAttachment(target attachTarget) *storagev1.VolumeAttachment {
	attachment := p.attachment(target.name)
	if attachment != nil && target.mismatch(p.cachedTarget(attachment)) != nil {
		return nil
	}
	return attachment
}

// storedAttachment reads the target's VolumeAttachment from the API server; nil: there is none. If
// the object of that name belongs to another target, the error matches ErrForeignAttachment.
func (p *Plugin) storedAttachment(ctx context.Context, target attachTarget) (*storagev1.VolumeAttachment, error) {
	attachment, err := p.cfg.Client.StorageV1().VolumeAttachments().Get(ctx, target.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get VolumeAttachment [%s]: %w", target.name, err)
	}
	return attachment, p.checkTarget(ctx, target, attachment)
}

// deleteAttachment deletes the target's VolumeAttachment, but no other object that gets its name
// meanwhile: an object's spec does not change, and another object has another UID. It returns gone
// if there is none. If the object of that name belongs to another target, the error matches
// ErrForeignAttachment.
func (p *Plugin) deleteAttachment(ctx context.Context, target attachTarget) (gone bool, err error) {
	attachment := p.cachedAttachment(target)
	if attachment == nil || target.ambiguous(p.cachedTarget(attachment)) {
		attachment, err = p.storedAttachment(ctx, target)
	}
	if err != nil || attachment == nil {
		return err == nil, err
	}
	err = p.cfg.Client.StorageV1().VolumeAttachments().Delete(ctx, attachment.Name,
		metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(attachment.UID))})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return false, err
}
