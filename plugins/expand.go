package plugins

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// The outcomes of growing a volume that a caller tells apart.
//
// Upstream: pkg/volume/util/types InfeasibleError, FailedPreconditionError (v1.36).
var (
	// ErrExpandInfeasible says that it will fail however often it is tried.
	ErrExpandInfeasible = errors.New("expansion is infeasible")
	// ErrExpandInUse says that it fails as long as the volume is used.
	ErrExpandInUse = errors.New("expansion of a volume in use is not possible")
)

// NodeExpander is offered by plugins whose volumes a kubelet has to grow on the node after they have grown elsewhere.
//
// Upstream: pkg/volume NodeExpandableVolumePlugin (v1.36).
type NodeExpander interface {
	// RequiresFSResize tells whether volumes of the plugin have to be grown on the node at all.
	RequiresFSResize() bool
	// NodeExpand grows the volume on the node to its new size. The error matches ErrUnsupported where the driver does not do so
	// on nodes, ErrExpandInfeasible where it will not do so however often it is asked, and ErrExpandInUse where it does not while
	// the volume is used. One that is not of class Final leaves open what became of the volume.
	NodeExpand(ctx context.Context, growth ExpandOptions) error
}

// ExpandOptions is what NodeExpand is told.
//
// Upstream: pkg/volume NodeResizeOptions (v1.36).
type ExpandOptions struct {
	Spec       *Spec
	Pod        types.UID // for which the volume is set up; where that is the plugin knows
	DevicePath string    // what attaching returned
	NewSize    resource.Quantity
	OldSize    resource.Quantity
}
