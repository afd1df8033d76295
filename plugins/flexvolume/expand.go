package flexvolume

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/plugins"
)

// RequiresFSResize reports whether the program says that its volumes must be expanded on the node.
//
// Upstream: pkg/volume/flexvolume RequiresFSResize (v1.36).
func (p *plugin) RequiresFSResize() bool { return p.capabilities.RequiresFSResize }

// NodeExpand makes the program expand the file system at the path where it is mounted for the pod.
// If the program does not support the call, the file system of the device grows.
//
// Upstream: pkg/volume/flexvolume NodeExpand, expanderDefaults.NodeExpand (v1.36).
func (p *plugin) NodeExpand(ctx context.Context, opts plugins.ExpandOptions) error {
	volume := opts.Spec.PersistentVolume
	if volume == nil {
		return fmt.Errorf("PersistentVolume not found for spec: %s", opts.Spec.Name())
	}
	options, err := driverOptions(opts.Spec, nil)
	if err != nil {
		return err
	}
	at := p.MountPath(opts.Spec, opts.Pod)
	_, err = p.call(ctx, opts.Spec.Name(), callExpandFS, options, opts.DevicePath, at,
		strconv.FormatInt(opts.NewSize.Value(), 10), strconv.FormatInt(opts.OldSize.Value(), 10))
	if !errors.Is(err, errNotSupported) {
		return err
	}
	isBlock := volume.Spec.VolumeMode != nil && *volume.Spec.VolumeMode == corev1.PersistentVolumeBlock
	if isBlock || opts.DevicePath == "" {
		return nil
	}
	return p.cfg.FS.Grow(ctx, opts.DevicePath, at)
}
