package localprovisioner

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"path"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// provisionedBy is the annotation with the provisioner's name.
const provisionedBy = "pv.kubernetes.io/provisioned-by"

// deviceType is the type of a block device.
const deviceType = fs.ModeDevice

// discover creates a volume for each disk of a class that has none. The error lists the disks that
// cannot be volumes.
//
// Upstream: pkg/discovery discoverVolumesAtPath.
func (c *Controller) discover(ctx context.Context, node *corev1.Node, class Class) error {
	stored, err := c.classes.Get(class.Name)
	if err != nil {
		return fmt.Errorf("failed to get ReclaimPolicy from storage class %q: %w", class.Name, err)
	}
	policy := ptr.Deref(stored.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
	if policy != corev1.PersistentVolumeReclaimRetain && policy != corev1.PersistentVolumeReclaimDelete {
		return fmt.Errorf("unsupported ReclaimPolicy %q from storage class %q, supported policy are Retain and Delete",
			policy, class.Name)
	}
	names, err := c.cfg.Machine.FS.ReadDir(c.cfg.Machine.Path(class.Dir))
	if err != nil {
		return fmt.Errorf("error reading directory: %w", err)
	}
	var failed []error
	for _, name := range names {
		if class.NamePattern != "" {
			if match, err := path.Match(class.NamePattern, name); err != nil {
				return err
			} else if !match {
				continue
			}
		}
		volume, err := c.volumeOf(node, class, name)
		if err != nil || volume == nil {
			failed = append(failed, err)
			continue
		}
		volume.Spec.PersistentVolumeReclaimPolicy, volume.Spec.MountOptions = policy, stored.MountOptions
		_, err = c.cfg.Client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) { // the cache has not seen it yet
			failed = append(failed, fmt.Errorf("error creating PV %q for volume at %q: %w", volume.Name,
				volume.Spec.Local.Path, err))
		}
	}
	return errors.Join(failed...)
}

// volumeOf returns the volume of a disk; nil if it has one already.
//
// Upstream: pkg/discovery discoverVolumesAtPath, createPV, pkg/common CreateLocalPVSpec.
func (c *Controller) volumeOf(node *corev1.Node, class Class, file string) (*corev1.PersistentVolume, error) {
	at := path.Join(class.Dir, file)
	mode, err := c.modeAt(at)
	if err != nil {
		return nil, err
	}
	wanted := class.VolumeMode
	if wanted == "" {
		wanted = corev1.PersistentVolumeFilesystem
	}
	name := volumeName(file, node.Name, class.Name)
	if existing, err := c.volumes.Get(name); err == nil {
		if ptr.Deref(existing.Spec.VolumeMode, "") == corev1.PersistentVolumeBlock && mode == corev1.PersistentVolumeFilesystem {
			err = fmt.Errorf("incorrect Volume Mode: PV %q requires block mode but path %q was in fs mode", name, at)
			c.report(existing, corev1.EventTypeWarning, reasonFailedDelete, err.Error())
		}
		return nil, err
	}
	if mode == corev1.PersistentVolumeFilesystem {
		if wanted == corev1.PersistentVolumeBlock {
			return nil, fmt.Errorf("path %q of filesystem mode cannot be used to create block volume", at)
		}
		if mounted, err := c.cfg.Machine.FS.IsMountPoint(c.cfg.Machine.Path(at)); err != nil || !mounted {
			return nil, errors.Join(fmt.Errorf("path %q is not an actual mountpoint", at), err)
		}
	}
	capacity, err := c.cfg.Machine.FS.Capacity(c.cfg.Machine.Path(at))
	if err != nil {
		return nil, fmt.Errorf("capacity of path %q: %w", at, err)
	}
	hostname, ok := node.Labels[corev1.LabelHostname]
	if !ok {
		//lint:ignore ST1005 the text is upstream's
		return nil, fmt.Errorf("Node does not have expected label %s", corev1.LabelHostname)
	}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: c.labels(node),
			Annotations: map[string]string{provisionedBy: c.provisionerName(node)},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{
				corev1.ResourceStorage: *resource.NewQuantity(roundedDown(capacity), resource.BinarySI),
			},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName:       class.Name,
			VolumeMode:             &wanted,
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: at}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{hostname},
				}},
			}}}},
		},
	}
	if class.FSType != "" {
		volume.Spec.Local.FSType = &class.FSType
	}
	if c.cfg.NodeOwns {
		volume.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
	}
	return volume, nil
}

// labels returns the labels of the node's volumes.
func (c *Controller) labels(node *corev1.Node) map[string]string {
	all := map[string]string{}
	for _, key := range c.cfg.NodeLabels {
		if value, ok := node.Labels[key]; ok {
			all[key] = value
		}
	}
	maps.Copy(all, c.cfg.Labels)
	return all
}

// volumeName returns the name of the volume of a file in the directory of a class.
//
// Upstream: pkg/discovery generatePVName.
func volumeName(file, node, class string) string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(file + node + class)) // it never fails
	return fmt.Sprintf("local-pv-%x", hash.Sum32())
}

// roundedDown returns a capacity in whole GiB or MiB, if there are at least ten.
//
// Upstream: pkg/discovery roundDownCapacityPretty.
func roundedDown(bytes int64) int64 {
	for _, unit := range []int64{1 << 30, 1 << 20} {
		if bytes >= 10*unit {
			return bytes / unit * unit
		}
	}
	return bytes
}
