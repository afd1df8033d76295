package localprovisioner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/sim/trace"
)

// The reasons of the events.
//
// Upstream: pkg/common EventVolumeFailedDelete, VolumeDelete; pkg/deleter DeletePVs.
const (
	reasonFailedDelete      = "VolumeFailedDelete"
	reasonDelete            = "VolumeDelete"
	reasonUnsupportedPolicy = "VolumeUnsupportedReclaimPolicy"
)

// driverName is the name of the provisioner in the trace.
const driverName = "local-volume-provisioner"

// reclaim cleans and deletes a volume that is released, if its policy says so. A failure is an event
// of the volume, and is retried with the next look at the node. It also tries to reclaim an available
// volume whose disk is gone, which tells that it is gone.
//
// Upstream: pkg/deleter DeletePVs.
func (c *Controller) reclaim(ctx context.Context, volume *corev1.PersistentVolume) {
	if volume.Spec.Local == nil {
		return
	}
	switch volume.Status.Phase {
	case corev1.VolumeReleased:
	case corev1.VolumeAvailable:
		if _, err := c.cfg.Machine.Stat(volume.Spec.Local.Path); !errors.Is(err, fs.ErrNotExist) {
			return
		}
	default:
		return
	}
	switch volume.Spec.PersistentVolumeReclaimPolicy {
	case corev1.PersistentVolumeReclaimDelete:
		if err := c.cleanAndDelete(ctx, volume); err != nil {
			c.report(volume, corev1.EventTypeWarning, reasonFailedDelete, fmt.Sprintf("Error cleaning PV %q: %v", volume.Name, err))
		}
	case corev1.PersistentVolumeReclaimRecycle:
		c.report(volume, corev1.EventTypeWarning, reasonUnsupportedPolicy,
			"Volume has unsupported PersistentVolumeReclaimPolicy: Recycle")
	}
}

// report records an event of a volume, unless it was the last one.
//
// Differs: upstream records it again every 10 seconds.
func (c *Controller) report(volume *corev1.PersistentVolume, eventType, reason, text string) {
	if c.told[volume.UID] != reason+text {
		c.told[volume.UID] = reason + text
		c.cfg.Recorder.Event(volume, eventType, reason, text)
	}
}

// cleanAndDelete cleans a volume and deletes its object.
//
// Differs: it reads the volume first, and leaves one that is no longer released. Upstream trusts its
// cache: the data of a volume that was bound again since is lost.
//
// Upstream: pkg/deleter deletePV.
func (c *Controller) cleanAndDelete(ctx context.Context, volume *corev1.PersistentVolume) error {
	if _, done := c.cleaned[volume.UID]; done && volume.DeletionTimestamp != nil {
		return nil
	}
	at := slices.IndexFunc(c.cfg.Classes, func(class Class) bool { return class.Name == volume.Spec.StorageClassName })
	if at < 0 {
		//lint:ignore ST1005 the text is upstream's
		return fmt.Errorf("Unknown storage class name %s", volume.Spec.StorageClassName)
	}
	name := path.Clean(volume.Spec.Local.Path)
	if dir := path.Clean(c.cfg.Classes[at].Dir); !strings.HasPrefix(name, dir+"/") {
		return fmt.Errorf("path %q of PV %q is outside of %q, the directory of its class", name, volume.Name, dir)
	}
	mode, err := c.modeAt(name)
	if err != nil {
		return fmt.Errorf("failed to get volume mode of path %q: %w", name, err)
	}
	volumes := c.cfg.Client.CoreV1().PersistentVolumes()
	current, err := volumes.Get(ctx, volume.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil &&
		(current.UID != volume.UID || current.Status.Phase != volume.Status.Phase) {
		return nil // the cache will show it
	}
	if err != nil {
		return err
	}
	if err := c.clean(ctx, volume, name, mode); err != nil {
		return err
	}
	c.cleaned[volume.UID] = struct{}{}
	err = volumes.Delete(ctx, volume.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &volume.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		//lint:ignore ST1005 the text is upstream's
		return fmt.Errorf("Error deleting PV %q: %w", volume.Name, err)
	}
	return nil
}

// clean removes the content of a disk. It leaves the process meanwhile.
//
// Upstream: pkg/deleter cleanPV, cleanFilePV, cleanBlockPV.
func (c *Controller) clean(ctx context.Context, volume *corev1.PersistentVolume, name string, mode corev1.PersistentVolumeMode) error {
	disk, at := c.cfg.Machine.FS, c.cfg.Machine.Path(name)
	if _, failed := c.told[volume.UID]; mode == corev1.PersistentVolumeBlock && !failed {
		c.report(volume, corev1.EventTypeNormal, reasonDelete,
			fmt.Sprintf("Starting cleanup of Block PV %q, this may take a while", volume.Name))
	}
	action := trace.Action{Kind: trace.KindDriver, Verb: "Clean", Object: driverName + "/" + volume.Name}
	return c.cfg.Process.Call(action, func() trace.Outcome {
		if mode == corev1.PersistentVolumeBlock {
			err := disk.Wipe(ctx, at)
			return trace.Outcome{Err: err, Detail: "path=" + name, Read: err != nil}
		}
		names, err := disk.ReadDir(at)
		removed := 0
		for _, each := range names {
			if failed := disk.RemoveAll(path.Join(at, each)); failed != nil {
				err = errors.Join(err, failed)
			} else {
				removed++
			}
		}
		return trace.Outcome{Err: err, Detail: "path=" + name, Read: err != nil && removed == 0}
	}).Err
}
