package volumemanager

// The names of operations.
//
// Upstream: pkg/volume/util/operationexecutor, GeneratedOperations.OperationName (v1.36).
const (
	opAttach        = "volume_attach"
	opDetach        = "volume_detach"
	opMount         = "volume_mount"
	opUnmount       = "volume_unmount"
	opUnmountDevice = "unmount_device"
	opMapVolume     = "map_volume"
	opUnmapVolume   = "unmap_volume"
	opUnmapDevice   = "unmap_device"
	opExpandInUse   = "volume_fs_resize"
)
