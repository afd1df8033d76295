package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
)

// VolumeStats asks the driver for the volume's usage. A driver without GET_VOLUME_STATS cannot
// measure. The volume's condition is not reported: CSI has removed it, and upstream asks only with
// the feature gate CSIVolumeHealth, which is off.
//
// Differs: numbers that the driver does not report are unknown; upstream takes them for 0.
//
// Upstream: pkg/volume/csi metricsCsi.GetMetrics (v1.36).
func (p *Plugin) VolumeStats(ctx context.Context, specName string, pod types.UID) (plugins.Usage, error) {
	data, err := loadData(p.cfg.FS, podVolumeDir(p.cfg.Root, pod, specName))
	path := p.mountPath(specName, pod)
	if errors.Is(err, fs.ErrNotExist) { // it may be a block volume
		data, err = p.loadBlock(specName)
		path = filepath.Join(p.globalMapPath(specName), string(pod))
	}
	if err != nil {
		return plugins.Usage{}, err
	}
	return p.measure(ctx, data, path)
}

// measure asks the driver about the volume at path.
func (p *Plugin) measure(ctx context.Context, data volumeData, path string) (plugins.Usage, error) {
	driver, err := p.driver(data.DriverName)
	if err != nil {
		return plugins.Usage{}, err
	}
	if !driver.volumeStats {
		return plugins.Usage{}, fmt.Errorf("csi driver %s: metrics: %w", data.DriverName, plugins.ErrUnsupported)
	}
	response, err := driver.client.NodeGetVolumeStats(ctx, &csispec.NodeGetVolumeStatsRequest{
		VolumeId: data.VolumeHandle, VolumePath: path,
	})
	if err != nil {
		return plugins.Usage{}, classify(err)
	}
	if len(response.GetUsage()) == 0 {
		return plugins.Usage{}, errors.New("failed to get usage from response. usage is nil")
	}
	return usageOf(response), nil
}

// usageOf converts what a driver reports of a volume.
func usageOf(response *csispec.NodeGetVolumeStatsResponse) plugins.Usage {
	u := plugins.Usage{
		CapacityBytes: -1, UsedBytes: -1, AvailableBytes: -1,
		Inodes: -1, InodesUsed: -1, InodesFree: -1,
	}
	for _, each := range response.GetUsage() {
		switch each.GetUnit() {
		case csispec.VolumeUsage_BYTES:
			u.CapacityBytes, u.UsedBytes, u.AvailableBytes = each.GetTotal(), each.GetUsed(), each.GetAvailable()
		case csispec.VolumeUsage_INODES:
			u.Inodes, u.InodesUsed, u.InodesFree = each.GetTotal(), each.GetUsed(), each.GetAvailable()
		}
	}
	return u
}
