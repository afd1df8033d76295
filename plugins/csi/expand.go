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

// RequiresFSResize is true: it is for the driver to say whether it does anything on the node.
//
// Upstream: pkg/volume/csi csiPlugin.RequiresFSResize (v1.36).
func (p *Plugin) RequiresFSResize() bool { return true }

// NodeExpand has the driver grow the volume where it is published for the pod.
//
// Differs: an error that leaves open what became of the volume is of that class; upstream knows final errors only. Of a device,
// the path is the pod's own.
//
// Upstream: pkg/volume/csi csiPlugin.NodeExpand, nodeExpandWithClient (v1.36).
func (p *Plugin) NodeExpand(ctx context.Context, growth plugins.ExpandOptions) error {
	source, err := sourceOf(growth.Spec)
	if err != nil {
		return errorf("Expander.NodeExpand failed to get CSI persistent source: %w", err)
	}
	driver, err := p.driver(source.Driver)
	if err != nil {
		return err
	}
	if !driver.expands {
		return &expandError{plugins.ErrUnsupported, fmt.Errorf("NodeExpand is not supported by the CSI driver %s", source.Driver)}
	}
	secrets, err := p.secrets(ctx, "NodeExpandSecretRef", source.NodeExpandSecretRef)
	if err != nil {
		return fmt.Errorf("expander.NodeExpand failed to get NodeExpandSecretRef %s/%s: %w",
			source.NodeExpandSecretRef.Namespace, source.NodeExpandSecretRef.Name, err)
	}
	request := &csispec.NodeExpandVolumeRequest{
		VolumeId:      source.VolumeHandle,
		CapacityRange: &csispec.CapacityRange{RequiredBytes: growth.NewSize.Value()},
		Secrets:       secrets,
	}
	volume := growth.Spec.PersistentVolume
	if mode := volume.Spec.VolumeMode; mode != nil && *mode == corev1.PersistentVolumeBlock {
		request.VolumePath = p.publishPath(growth.Spec.Name(), growth.Pod)
		request.StagingTargetPath = p.stagingPath(growth.Spec.Name())
		request.VolumeCapability = driver.blockCapability(volume)
	} else {
		request.VolumePath = p.MountPath(growth.Spec.Name(), growth.Pod)
		request.StagingTargetPath = globalMountPath(p.cfg.Root, source.Driver, source.VolumeHandle)
		request.VolumeCapability = driver.mountCapability(volume, source.FSType, "", nil)
	}
	_, err = driver.client.NodeExpandVolume(ctx, request)
	return expandStatusError(err)
}

// expandError is an error of growing a volume that matches another one, of package plugins.
type expandError struct{ kind, err error }

func (e *expandError) Error() string        { return e.err.Error() }
func (e *expandError) Unwrap() error        { return e.err }
func (e *expandError) Is(target error) bool { return target == e.kind }

// expandStatusError tells what an error of NodeExpandVolume means.
//
// Upstream: pkg/volume/csi inUseError, isInfeasibleError (v1.36).
func expandStatusError(err error) error {
	if err == nil {
		return nil
	}
	err = classify(err)
	switch code := status.Code(err); code {
	case codes.FailedPrecondition:
		return &expandError{plugins.ErrExpandInUse, fmt.Errorf("Expander.NodeExpand failed to expand the volume : %w", err)}
	case codes.InvalidArgument, codes.OutOfRange, codes.NotFound:
		return &expandError{plugins.ErrExpandInfeasible, fmt.Errorf("Expander.NodeExpand failed to expand the volume %w", err)}
	default:
		return fmt.Errorf("Expander.NodeExpand failed to expand the volume : %w", err)
	}
}
