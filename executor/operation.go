package executor

import (
	"context"
	"errors"

	"github.com/volsim/volsim/plugins"
)

// The names of operations.
//
// Upstream: pkg/volume/util/operationexecutor, GeneratedOperations.OperationName (v1.36).
const (
	Attach                   = "volume_attach"
	Detach                   = "volume_detach"
	Mount                    = "volume_mount"
	Unmount                  = "volume_unmount"
	UnmountDevice            = "unmount_device"
	MapVolume                = "map_volume"
	UnmapVolume              = "unmap_volume"
	UnmapDevice              = "unmap_device"
	VerifyControllerAttached = "verify_controller_attached_volume"
	ExpandInUse              = "volume_fs_resize"
	Expand                   = "expand_volume"
	VerifyAttached           = "verify_volumes_are_attached_per_node"
)

// Operation is one piece of work on a volume. Run does it, as a strand of its own that may leave the component. Ended, which
// may be nil, takes in how it ended, in the component's monitor, without leaving it.
type Operation struct {
	Key  Key
	Name string
	Run  func(ctx context.Context) error
	Done func(outcome Outcome, err error)
}

// Outcome is how an operation ended, and what that says about the volume.
type Outcome int

// The outcomes.
const (
	Done      Outcome = iota // it succeeded
	Final                    // it did not happen and will not
	Transient                // it did not begin; all is as it was before
	Uncertain                // it may have happened, or may still happen
)

// String gives the outcome as a word.
func (o Outcome) String() string {
	return [...]string{"done", "final", "transient", "uncertain"}[o]
}

// OutcomeOf is the outcome of an operation that ended with err: Done for nil, and else what the plugin's error says. After a
// panic nobody knows.
func OutcomeOf(err error) Outcome {
	var panicked *PanicError
	switch class := plugins.ClassOf(err); {
	case err == nil:
		return Done
	case errors.As(err, &panicked), class == plugins.Uncertain:
		return Uncertain
	case class == plugins.Transient:
		return Transient
	default:
		return Final
	}
}
