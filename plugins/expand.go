package plugins

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// Errors of expanding a volume.
//
// Upstream: pkg/volume/util/types InfeasibleError, FailedPreconditionError (v1.36).
var (
	// ErrExpandInfeasible reports that expansion will fail however often it is retried.
	ErrExpandInfeasible = errors.New("expansion is infeasible")
	// ErrExpandInUse reports that expansion fails as long as the volume is in use.
	ErrExpandInUse = errors.New("expansion of a volume in use is not possible")
)

// A VolumeExpander is a plugin whose volumes the expand controller expands.
//
// Upstream: pkg/volume ExpandableVolumePlugin (v1.36).
type VolumeExpander interface {
	// ExpandVolume expands the volume to at least newSize, and returns its size. It succeeds if the
	// volume has that size.
	ExpandVolume(ctx context.Context, spec *Spec, newSize, oldSize resource.Quantity) (resource.Quantity, error)
}

// A NodeExpander is a plugin whose volumes a kubelet may have to expand on the node after the
// control plane expanded them.
//
// Upstream: pkg/volume NodeExpandableVolumePlugin (v1.36).
type NodeExpander interface {
	// RequiresFSResize reports whether volumes of the plugin must be expanded on the node at all.
	RequiresFSResize() bool
	// NodeExpand expands the volume on the node to its new size. The error matches ErrUnsupported
	// if the driver does not expand volumes on nodes, ErrExpandInfeasible if a retry cannot
	// succeed, and ErrExpandInUse if the volume must not be in use. After an error that is not
	// Final the volume may or may not be expanded.
	NodeExpand(ctx context.Context, opts ExpandOptions) error
}

// ExpandOptions are the options of NodeExpand.
//
// Upstream: pkg/volume NodeResizeOptions (v1.36).
type ExpandOptions struct {
	Spec       *Spec
	Pod        types.UID // for which the volume is set up; the plugin knows the path
	DevicePath string    // as returned by Attach
	NewSize    resource.Quantity
	OldSize    resource.Quantity
}
