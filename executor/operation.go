package executor

import "context"

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

// Operation is one piece of work on a volume. Run does it, as a strand of its own that may leave the component; what it
// returns is how the operation ended.
type Operation struct {
	Key  Key
	Name string
	Run  func(ctx context.Context) error
}
