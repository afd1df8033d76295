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

// CanAttach tells whether the volume's driver asks for attaching: its CSIDriver object says so, or it has none.
//
// Upstream: pkg/volume/csi csiPlugin.CanAttach (v1.36).
func (p *Plugin) CanAttach(spec *plugins.Spec) (bool, error) {
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

// Attach creates the volume's VolumeAttachment on the node and waits until its status says attached. The device path is
// always empty: the kubelet takes what it needs from the VolumeAttachment.
//
// Upstream: pkg/volume/csi csiAttacher.Attach (v1.36).
func (p *Plugin) Attach(ctx context.Context, spec *plugins.Spec, node types.NodeName) (string, error) {
	source, err := sourceOf(spec)
	if err != nil {
		return "", err
	}
	name := AttachmentName(source.VolumeHandle, source.Driver, node)
	if _, err := p.attachments.Get(name); apierrors.IsNotFound(err) {
		attachment := &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: storagev1.VolumeAttachmentSpec{
				NodeName: string(node),
				Attacher: source.Driver,
				Source:   storagev1.VolumeAttachmentSource{PersistentVolumeName: &spec.PersistentVolume.Name},
			},
		}
		_, err := p.cfg.Client.StorageV1().VolumeAttachments().Create(ctx, attachment, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return "", fmt.Errorf("attacher.Attach failed: %w", err)
		}
	}
	seen, verdict := false, error(nil)
	attached := func() bool {
		var done bool
		done, seen, verdict = p.attachState(name, seen)
		return done
	}
	if !p.await(name, "attachment of "+spec.Name()+" to "+string(node), attached) {
		return "", timedOut(source.Driver, "attach", source.VolumeHandle)
	}
	return "", verdict
}

// attachState looks at a VolumeAttachment that should become attached: whether there is a verdict, whether the object
// has been seen, and the verdict. An object not yet seen is still on its way here.
func (p *Plugin) attachState(name string, seenBefore bool) (done, seen bool, verdict error) {
	attachment, err := p.attachments.Get(name)
	switch {
	case err != nil && seenBefore:
		return true, true, errors.New("volume attachment has been deleted")
	case err != nil:
		return false, false, nil
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

// Detach deletes the volume's VolumeAttachment on the node and waits until it is gone from the cache. A cache that has not
// shown the attachment yet cannot tell: who does not know it to have been there asks Verify afterwards.
//
// Differs: upstream does not wait for the cache when the API server has no such attachment any more, and takes what the
// cache still shows for attached when the volume is wanted again.
//
// Upstream: pkg/volume/csi csiAttacher.Detach (v1.36).
func (p *Plugin) Detach(ctx context.Context, volumeName string, node types.NodeName) error {
	driver, handle, err := splitVolumeName(volumeName)
	if err != nil {
		return err
	}
	name := AttachmentName(handle, driver, node)
	err = p.cfg.Client.StorageV1().VolumeAttachments().Delete(ctx, name, metav1.DeleteOptions{})
	gone := apierrors.IsNotFound(err)
	if err != nil && !gone {
		return fmt.Errorf("detacher.Detach failed to delete VolumeAttachment [%s]: %w", name, err)
	}
	var verdict error
	detached := func() bool {
		attachment, err := p.attachments.Get(name)
		if err != nil {
			verdict = nil
			return true
		}
		if e := attachment.Status.DetachError; e != nil && !gone {
			verdict = errors.New(e.Message)
			return true
		}
		return false
	}
	if !p.await(name, "detachment of "+handle+" from "+string(node), detached) {
		return timedOut(driver, "detach", handle)
	}
	return verdict
}

// await waits until cond holds, which is about a VolumeAttachment in the cache. It returns false after two minutes.
func (p *Plugin) await(name, what string, cond func() bool) bool {
	if p.news[name] == nil {
		p.news[name] = &sim.Signal{}
	}
	holds := p.cfg.Component.WaitOn(p.news[name], what, attachTimeout, cond)
	if s := p.news[name]; s != nil && !s.Awaited() {
		delete(p.news, name)
	}
	return holds
}

// followAttachments tells those who wait for a VolumeAttachment that something came of it. Thousands may wait, each for
// another one.
func (p *Plugin) followAttachments(informer cache.SharedIndexInformer) {
	told := func(object any) {
		name, err := cache.DeletionHandlingObjectToName(object)
		if err != nil {
			panic("csi: a VolumeAttachment without a name: " + err.Error())
		}
		if s := p.news[name.Name]; s != nil {
			s.Give()
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: told, UpdateFunc: func(_, object any) { told(object) }, DeleteFunc: told,
	})
	if err != nil {
		panic("csi: follow VolumeAttachments: " + err.Error())
	}
}

func timedOut(driver, operation, handle string) error {
	return fmt.Errorf("timed out waiting for external-attacher of %s CSI driver to %s volume %s", driver, operation, handle)
}

// publishContext is what the attacher got from the driver for this node. Not attached is an error.
func (p *Plugin) publishContext(ctx context.Context, spec *plugins.Spec) (map[string]string, error) {
	attachable, err := p.CanAttach(spec)
	if err != nil || !attachable {
		return nil, err
	}
	source := spec.PersistentVolume.Spec.CSI
	name := AttachmentName(source.VolumeHandle, source.Driver, p.cfg.NodeName)
	attachment, err := p.cfg.Client.StorageV1().VolumeAttachments().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("volume %s has GET error for volume attachment %s: %w", source.VolumeHandle, name, err)
	}
	if !attachment.Status.Attached {
		return nil, fmt.Errorf("volume %s is not attached for volume attachment %s", source.VolumeHandle, name)
	}
	return attachment.Status.AttachmentMetadata, nil
}
