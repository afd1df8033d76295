package csi

import (
	"context"
	"fmt"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/plugins"
)

// RequiresFSResize reports whether volumes must be expanded on the node: always true, as the driver
// decides whether anything must be done there.
//
// Upstream: pkg/volume/csi csiPlugin.RequiresFSResize (v1.36).
func (p *Plugin) RequiresFSResize() bool { return true }

// NodeExpand makes the driver expand the volume at the path where it is published for the pod.
//
// Differs: an error after which the volume may have been expanded is uncertain; upstream knows only
// final errors. For a block volume the path is the pod's own.
//
// Upstream: pkg/volume/csi csiPlugin.NodeExpand, nodeExpandWithClient (v1.36).
func (p *Plugin) NodeExpand(ctx context.Context, opts plugins.ExpandOptions) error {
	source, err := sourceOf(opts.Spec)
	if err != nil {
		return errorf("Expander.NodeExpand failed to get CSI persistent source: %w", err)
	}
	driver, err := p.driver(source.Driver)
	if err != nil {
		return err
	}
	if !driver.expands {
		return &expandError{plugins.ErrUnsupported, fmt.Errorf("NodeExpand is not supported by the CSI driver %s",
			source.Driver)}
	}
	secrets, err := p.secrets(ctx, "NodeExpandSecretRef", source.NodeExpandSecretRef)
	if err != nil {
		return fmt.Errorf("expander.NodeExpand failed to get NodeExpandSecretRef %s/%s: %w",
			source.NodeExpandSecretRef.Namespace, source.NodeExpandSecretRef.Name, err)
	}
	request := &csispec.NodeExpandVolumeRequest{
		VolumeId:      source.VolumeHandle,
		CapacityRange: &csispec.CapacityRange{RequiredBytes: opts.NewSize.Value()},
		Secrets:       secrets,
	}
	volume := opts.Spec.PersistentVolume
	if mode := volume.Spec.VolumeMode; mode != nil && *mode == corev1.PersistentVolumeBlock {
		request.VolumePath = p.publishPath(opts.Spec.Name(), opts.Pod)
		request.StagingTargetPath = p.stagingPath(opts.Spec.Name())
		request.VolumeCapability = driver.blockCapability(volume)
	} else {
		request.VolumePath = p.MountPath(opts.Spec, opts.Pod)
		request.StagingTargetPath = globalMountPath(p.cfg.Root, source.Driver, source.VolumeHandle)
		request.VolumeCapability = driver.mountCapability(volume, source.FSType, "", nil)
	}
	_, err = driver.client.NodeExpandVolume(ctx, request)
	return expandStatusError(err)
}

// An expandError is an error of NodeExpand that also matches kind, an error of package plugins.
type expandError struct{ kind, err error }

func (e *expandError) Error() string        { return e.err.Error() }
func (e *expandError) Unwrap() error        { return e.err }
func (e *expandError) Is(target error) bool { return target == e.kind }

// expandStatusError translates an error of NodeExpandVolume.
//
// Upstream: pkg/volume/csi inUseError, isInfeasibleError (v1.36).
func expandStatusError(err error) error {
	if err == nil {
		return nil
	}
	err = classify(err)
	switch code := status.Code(err); code {
	case codes.FailedPrecondition:
		return &expandError{
			plugins.ErrExpandInUse,
			fmt.Errorf("Expander.NodeExpand failed to expand the volume : %w", err),
		}
	case codes.InvalidArgument, codes.OutOfRange, codes.NotFound:
		return &expandError{
			plugins.ErrExpandInfeasible,
			fmt.Errorf("Expander.NodeExpand failed to expand the volume %w", err),
		}
	default:
		return fmt.Errorf("Expander.NodeExpand failed to expand the volume : %w", err)
	}
}
