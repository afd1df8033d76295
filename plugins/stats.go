package plugins

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

// StatsProvider is offered by mounters that can tell how full a volume is.
//
// Upstream: pkg/volume MetricsProvider (v1.36).
type StatsProvider interface {
	// VolumeStats returns how much of the volume is used. It is asked of volumes that are set up for the pod. Where the volume cannot
	// be measured the error matches ErrUnsupported.
	VolumeStats(ctx context.Context, specName string, pod types.UID) (Usage, error)
}

// Usage is how full a volume is. Numbers that are not known are -1.
//
// Upstream: pkg/volume Metrics (v1.36).
type Usage struct {
	CapacityBytes, UsedBytes, AvailableBytes int64
	Inodes, InodesUsed, InodesFree           int64
	Abnormal                                 bool   // the driver says that something is wrong with the volume
	Message                                  string // what it says
}
