package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/volumehealth"
	"github.com/volsim/volsim/plugins"
)

// VolumeStats asks the driver for the volume's usage and, with Config.VolumeHealth, for its health. A
// driver without GET_VOLUME_STATS cannot measure.
//
// Differs: numbers that the driver does not report are unknown; upstream takes them for 0. Drivers of
// CSI 1.13 are asked by NodeGetVolumeHealth; upstream has only the volume condition of earlier
// versions.
//
// Upstream: pkg/volume/csi metricsCsi.GetMetrics (v1.36).
func (p *Plugin) VolumeStats(ctx context.Context, specName string, pod types.UID) (plugins.Usage, error) {
	data, err := loadData(p.cfg.FS, podVolumeDir(p.cfg.Root, pod, specName))
	at := volumePaths{measured: p.mountPath(specName, pod), published: p.mountPath(specName, pod)}
	if errors.Is(err, fs.ErrNotExist) { // it may be a block volume
		data, err = p.loadBlock(specName)
		at = volumePaths{
			measured:  filepath.Join(p.globalMapPath(specName), string(pod)),
			published: p.publishPath(specName, pod), staged: p.stagingPath(specName),
		}
	} else if data.VolumeLifecycleMode != string(storagev1.VolumeLifecycleEphemeral) {
		at.staged = globalMountPath(p.cfg.Root, data.DriverName, data.VolumeHandle)
	}
	if err != nil {
		return plugins.Usage{}, err
	}
	return p.measure(ctx, data, at)
}

// volumePaths are the paths at which a volume is measured, published for a pod and staged. An inline
// volume is not staged: "".
type volumePaths struct{ measured, published, staged string }

// measure asks the driver about a volume.
//
// Upstream: pkg/volume/csi csiDriverClient.NodeGetVolumeStats (v1.36).
func (p *Plugin) measure(ctx context.Context, data volumeData, at volumePaths) (plugins.Usage, error) {
	driver, err := p.driver(data.DriverName)
	if err != nil {
		return plugins.Usage{}, err
	}
	if !driver.volumeStats {
		return plugins.Usage{}, fmt.Errorf("csi driver %s: metrics: %w", data.DriverName, plugins.ErrUnsupported)
	}
	response, err := driver.client.NodeGetVolumeStats(ctx, &csispec.NodeGetVolumeStatsRequest{
		VolumeId: data.VolumeHandle, VolumePath: at.measured,
	})
	if err != nil {
		return plugins.Usage{}, classify(err)
	}
	usage := usageOf(response)
	if p.cfg.VolumeHealth {
		driver.addHealth(ctx, &usage, response, data.VolumeHandle, at)
	}
	if len(response.GetUsage()) == 0 && !usage.ReportsHealth {
		return plugins.Usage{}, errors.New("failed to get usage from response. usage is nil")
	}
	return usage, nil
}

// addHealth adds what a driver reports of a volume's health. If the driver cannot be asked, the
// health is unknown and the usage stays.
func (d *nodeDriver) addHealth(
	ctx context.Context, usage *plugins.Usage, stats *csispec.NodeGetVolumeStatsResponse, id string, at volumePaths,
) {
	var condition volumehealth.Condition
	switch {
	case d.health:
		if !d.stages {
			at.staged = ""
		}
		var err error
		if condition, err = volumehealth.OnNode(ctx, d.conn, id, at.published, at.staged); err != nil {
			return // the failure is in the trace
		}
	case d.condition:
		condition, _ = volumehealth.Retired(stats) // without one the volume is normal, as upstream takes it
	default:
		return
	}
	usage.ReportsHealth, usage.Abnormal, usage.Message = true, condition.Abnormal, condition.Message
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
