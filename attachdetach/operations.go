package attachdetach

// The names of operations.
//
// Upstream: pkg/volume/util/operationexecutor, GeneratedOperations.OperationName (v1.36).
const (
	opAttach         = "volume_attach"
	opDetach         = "volume_detach"
	opVerifyAttached = "verify_volumes_are_attached_per_node"
)
