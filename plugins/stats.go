package plugins

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

// A StatsProvider is a Mounter that can measure a volume's usage.
//
// Upstream: pkg/volume MetricsProvider (v1.36).
type StatsProvider interface {
	// VolumeStats returns the usage of a volume that is set up for the pod. The error matches
	// ErrUnsupported if the volume cannot be measured.
	VolumeStats(ctx context.Context, specName string, pod types.UID) (Usage, error)
}

// Usage is the capacity and usage of a volume. Unknown numbers are -1.
//
// Upstream: pkg/volume Metrics (v1.36).
type Usage struct {
	CapacityBytes, UsedBytes, AvailableBytes int64
	Inodes, InodesUsed, InodesFree           int64
	ReportsHealth                            bool   // the driver reports whether the volume is abnormal
	Abnormal                                 bool   // the driver reports the volume as abnormal
	Message                                  string // the driver's message
}
