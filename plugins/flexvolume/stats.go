package flexvolume

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/nodefs"
)

// VolumeStats returns the usage of the file system where the volume is mounted for the pod, if the
// program says that it supports metrics. A disk in memory has no sizes.
//
// Upstream: pkg/volume/flexvolume newMounterInternal, pkg/volume NewMetricsStatFS (v1.36).
func (p *plugin) VolumeStats(_ context.Context, specName string, pod types.UID) (plugins.Usage, error) {
	if _, inMemory := p.cfg.FS.(*nodefs.Memory); inMemory || !p.capabilities.SupportsMetrics {
		return plugins.Usage{}, fmt.Errorf("metrics of flexvolume driver %s: %w", p.name, plugins.ErrUnsupported)
	}
	return statFS(p.mountPath(specName, pod))
}
