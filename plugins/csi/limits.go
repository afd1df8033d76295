package csi

import (
	"context"
	"fmt"
	"slices"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	"google.golang.org/grpc/codes"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/volsim/volsim/plugins"
)

// UpdatePeriod returns how often a driver must be asked for the node's volume limit; 0 is never.
// The period is in the driver's CSIDriver object.
//
// Upstream: pkg/volume/csi getNodeAllocatableUpdatePeriod (v1.36).
func (p *Plugin) UpdatePeriod(driver string) time.Duration {
	d, err := p.csiDriver(driver)
	if err != nil || d == nil || d.Spec.NodeAllocatableUpdatePeriodSeconds == nil {
		return 0
	}
	return time.Duration(*d.Spec.NodeAllocatableUpdatePeriodSeconds) * time.Second
}

// Limited reports whether the volume's driver is asked periodically for the node's volume limit.
func (p *Plugin) Limited(spec *plugins.Spec) bool {
	source, err := sourceOf(spec)
	return err == nil && p.UpdatePeriod(source.Driver) > 0
}

// Exhausted reports whether attaching the volume failed after since because the node's limit was
// reached, as recorded in its VolumeAttachment. It then updates the node's CSINode; a failure to do
// so is only logged.
//
// Differs: upstream ignores the time, and takes the failure of an earlier pod for that of the next
// one.
//
// Upstream: pkg/volume/csi csiPlugin.VerifyExhaustedResource (v1.36).
func (p *Plugin) Exhausted(ctx context.Context, spec *plugins.Spec, since time.Time) (bool, error) {
	target, err := targetOf(spec, p.cfg.NodeName)
	if err != nil || p.UpdatePeriod(target.driver) == 0 {
		return false, err
	}
	attachment, err := p.storedAttachment(ctx, target)
	if err != nil || attachment == nil {
		return false, err
	}
	failure := attachment.Status.AttachError
	if failure == nil || failure.ErrorCode == nil || codes.Code(*failure.ErrorCode) != codes.ResourceExhausted ||
		!failure.Time.After(since) { // the API has a resolution of one second: one of the same second may be older
		return false, nil
	}
	if err := p.Refresh(ctx, target.driver); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "update the node's volume limit", "driver", target.driver)
	}
	return true, nil
}

// Refresh asks a registered driver about the node, and writes what changed since the last time into
// the node's CSINode. It does nothing for a driver that is not registered.
//
// Differs: upstream reads the CSINode each time and reverts foreign changes, even for a driver that
// was unregistered meanwhile.
//
// Upstream: pkg/volume/csi updateCSIDriver, and nodeinfomanager UpdateCSIDriver (v1.36).
func (p *Plugin) Refresh(ctx context.Context, driver string) error {
	d, err := p.driver(driver)
	if err != nil {
		return nil //nolint:nilerr // asked at registration
	}
	info, err := d.client.NodeGetInfo(ctx, &csispec.NodeGetInfoRequest{})
	if err != nil {
		return fmt.Errorf("driver %s: NodeGetInfo: %w", driver, err)
	}
	defer p.lockDriver(driver)()
	entry := newDriverEntry(driver, info)
	if p.drivers[driver] != d || d.published != nil && equality.Semantic.DeepEqual(*d.published, entry) {
		return nil // unregistered or replaced meanwhile, or nothing changed
	}
	return p.updateDriverEntry(ctx, entry)
}

// newDriverEntry returns the CSINode entry for what a driver reports about the node.
func newDriverEntry(driver string, info *csispec.NodeGetInfoResponse) storagev1.CSINodeDriver {
	entry := storagev1.CSINodeDriver{Name: driver, NodeID: info.GetNodeId(), TopologyKeys: topologyKeys(info)}
	if limit := info.GetMaxVolumesPerNode(); limit > 0 {
		count := int32(min(limit, 1<<31-1))
		entry.Allocatable = &storagev1.VolumeNodeResources{Count: &count}
	}
	return entry
}

// rememberDriverEntry stores the driver's entry as written to the CSINode.
func (p *Plugin) rememberDriverEntry(entry storagev1.CSINodeDriver) {
	if d, ok := p.drivers[entry.Name]; ok {
		entry.TopologyKeys = slices.Clone(entry.TopologyKeys)
		d.published = &entry
	}
}
