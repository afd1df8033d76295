package csi

import (
	"context"
	"errors"
	"fmt"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim"
)

// CanAttach reports whether the volume's driver needs attaching: its CSIDriver object says so, or
// it has no such object. An inline volume is never attached.
//
// Upstream: pkg/volume/csi csiPlugin.CanAttach (v1.36).
func (p *Plugin) CanAttach(spec *plugins.Spec) (bool, error) {
	if inlineSource(spec) != nil {
		return false, nil
	}
	source, err := sourceOf(spec)
	if err != nil {
		return false, err
	}
	driver, err := p.csiDriver(source.Driver)
	if err != nil {
		return false, err
	}
	return driver == nil || driver.Spec.AttachRequired == nil || *driver.Spec.AttachRequired, nil
}

// Attach creates the VolumeAttachment of the volume on the node, and waits until its status says
// attached. The device path is always empty: the kubelet reads what it needs from the
// VolumeAttachment. If the VolumeAttachment of that name belongs to something else, the error
// matches ErrForeignAttachment.
//
// Upstream: pkg/volume/csi csiAttacher.Attach (v1.36).
func (p *Plugin) Attach(ctx context.Context, spec *plugins.Spec, node types.NodeName) (string, error) {
	target, err := targetOf(spec, node)
	if err != nil {
		return "", err
	}
	if p.attachment(target.name) == nil {
		attachment := &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: target.name},
			Spec: storagev1.VolumeAttachmentSpec{
				NodeName: string(node),
				Attacher: target.driver,
				Source:   attachmentSource(spec),
			},
		}
		_, err := p.cfg.Client.StorageV1().VolumeAttachments().Create(ctx, attachment, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return "", fmt.Errorf("%s: attacher.Attach failed: %w", PluginName, err)
		}
	}
	seen, result := false, error(nil)
	attached := func() bool {
		var done bool
		done, seen, result = p.attachState(target, seen)
		return done
	}
	if !p.await(target.name, "attachment of "+spec.Name()+" to "+string(node), attached) {
		return "", timeoutError(target.driver, "attach", target.handle)
	}
	if attachment := p.attachment(target.name); attachment != nil && result == nil {
		result = p.checkTarget(ctx, target, attachment)
	}
	return "", result
}

// attachmentSource names the PersistentVolume, or contains the spec of one that does not exist in
// the API.
func attachmentSource(spec *plugins.Spec) storagev1.VolumeAttachmentSource {
	if spec.Inline {
		return storagev1.VolumeAttachmentSource{InlineVolumeSpec: spec.PersistentVolume.Spec.DeepCopy()}
	}
	return storagev1.VolumeAttachmentSource{PersistentVolumeName: &spec.PersistentVolume.Name}
}

// attachment returns the VolumeAttachment of that name from the cache, or nil.
func (p *Plugin) attachment(name string) *storagev1.VolumeAttachment {
	object, found, err := p.attachments.GetByKey(name)
	if !found || err != nil {
		return nil
	}
	return object.(*storagev1.VolumeAttachment)
}

// attachState checks a VolumeAttachment that should become attached. It returns whether the wait is
// over, whether the object has been seen, and the result. An object not yet seen has not reached
// the cache.
func (p *Plugin) attachState(target attachTarget, seenBefore bool) (done, seen bool, err error) {
	attachment := p.attachment(target.name)
	switch {
	case attachment == nil && seenBefore:
		return true, true, errors.New("volume attachment has been deleted")
	case attachment == nil:
		return false, false, nil
	case target.mismatch(p.cachedTarget(attachment)) != nil:
		return true, true, target.mismatch(p.cachedTarget(attachment))
	case attachment.DeletionTimestamp != nil:
		return true, true, errors.New("volume attachment is being deleted")
	case attachment.Status.Attached:
		return true, true, nil
	case attachment.Status.AttachError != nil:
		return true, true, errors.New(attachment.Status.AttachError.Message)
	default:
		return false, true, nil
	}
}

// Detach deletes the VolumeAttachment of the volume on the node, and waits until it is gone from
// the cache. If the cache has not shown the attachment yet, its absence proves nothing: a caller
// that has not seen it should call Verify afterwards. A VolumeAttachment of that name that belongs
// to something else counts as none.
//
// Differs: upstream does not wait for the cache when the object no longer exists in the API. It
// then takes a stale cache entry for attached when the volume is wanted again.
//
// Upstream: pkg/volume/csi csiAttacher.Detach (v1.36).
func (p *Plugin) Detach(ctx context.Context, volumeName string, node types.NodeName) error {
	target, err := namedTarget(volumeName, node)
	if err != nil {
		return err
	}
	gone, err := p.deleteAttachment(ctx, target)
	switch {
	case errors.Is(err, ErrForeignAttachment):
		return nil
	case err != nil:
		return fmt.Errorf("%s: detacher.Detach failed to delete VolumeAttachment [%s]: %w", PluginName,
			target.name, err)
	}
	var result error
	detached := func() bool {
		attachment := p.cachedAttachment(target)
		if attachment == nil {
			result = nil
			return true
		}
		if e := attachment.Status.DetachError; e != nil && !gone {
			result = errors.New(e.Message)
			return true
		}
		return false
	}
	if !p.await(target.name, "detachment of "+target.handle+" from "+string(node), detached) {
		return timeoutError(target.driver, "detach", target.handle)
	}
	return result
}

// await waits until cond, which is about a VolumeAttachment in the cache, holds, for at most two
// minutes. It reports whether cond holds.
func (p *Plugin) await(name, what string, cond func() bool) bool {
	if p.attachmentSignals[name] == nil {
		p.attachmentSignals[name] = &sim.Signal{}
	}
	holds := p.cfg.Process.WaitOn(p.attachmentSignals[name], what, attachTimeout, cond)
	if s := p.attachmentSignals[name]; s != nil && !s.HasWaiters() {
		delete(p.attachmentSignals, name)
	}
	return holds
}

// watchAttachments signals the waiters of a VolumeAttachment when it changes. There is one signal
// per object, since thousands may wait, each for a different one.
func (p *Plugin) watchAttachments(informer cache.SharedIndexInformer) {
	notify := func(object any) {
		name, err := cache.DeletionHandlingObjectToName(object)
		if err != nil {
			panic("csi: a VolumeAttachment without a name: " + err.Error())
		}
		if s := p.attachmentSignals[name.Name]; s != nil {
			s.Broadcast()
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: notify, UpdateFunc: func(_, object any) { notify(object) }, DeleteFunc: notify,
	})
	if err != nil {
		panic("csi: follow VolumeAttachments: " + err.Error())
	}
}

func timeoutError(driver, operation, handle string) error {
	return fmt.Errorf("timed out waiting for external-attacher of %s CSI driver to %s volume %s", driver, operation,
		handle)
}

// publishContext returns the attachment metadata that the attacher received from the driver for
// this node. A volume that is not attached is an error.
//
// Differs: upstream checks only that the VolumeAttachment exists, not that its status says attached
// (I17).
//
// Upstream: pkg/volume/csi csiPlugin.getPublishContext (v1.36).
func (p *Plugin) publishContext(ctx context.Context, spec *plugins.Spec) (map[string]string, error) {
	attachable, err := p.CanAttach(spec)
	if err != nil || !attachable {
		return nil, err
	}
	target, err := targetOf(spec, p.cfg.NodeName)
	if err != nil {
		return nil, err
	}
	name := target.name
	attachment, err := p.cfg.Client.StorageV1().VolumeAttachments().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("volume %s has GET error for volume attachment %s: %w", target.handle, name, err)
	}
	if err := p.checkTarget(ctx, target, attachment); err != nil {
		return nil, err
	}
	if !attachment.Status.Attached {
		return nil, fmt.Errorf("volume %s is not attached for volume attachment %s", target.handle, name)
	}
	return attachment.Status.AttachmentMetadata, nil
}
