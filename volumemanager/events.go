package volumemanager

// The reasons of a kubelet's events about volumes.
//
// Upstream: pkg/kubelet/events.
const reasonFailedMount = "FailedMount"
