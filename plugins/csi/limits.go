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

// UpdatePeriod is how often a driver is to be asked how many volumes the node can have; 0: never. Its CSIDriver object says so.
//
// Upstream: pkg/volume/csi getNodeAllocatableUpdatePeriod (v1.36).
func (p *Plugin) UpdatePeriod(driver string) time.Duration {
	d, err := p.csiDriver(driver)
	if err != nil || d == nil || d.Spec.NodeAllocatableUpdatePeriodSeconds == nil {
		return 0
	}
	return time.Duration(*d.Spec.NodeAllocatableUpdatePeriodSeconds) * time.Second
}

// Limited tells whether the volume's driver is asked again and again how many volumes the node can have.
func (p *Plugin) Limited(spec *plugins.Spec) bool {
	source, err := sourceOf(spec)
	return err == nil && p.UpdatePeriod(source.Driver) > 0
}

// Exhausted tells whether the volume could not be attached, after a time, for lack of a place on the node: its
// VolumeAttachment says so. Then the node's CSINode is brought up to date; that this failed is only logged.
//
// Differs: upstream does not look when that was, and takes the failure of an earlier pod for that of the next one.
//
// Upstream: pkg/volume/csi csiPlugin.VerifyExhaustedResource (v1.36).
func (p *Plugin) Exhausted(ctx context.Context, spec *plugins.Spec, since time.Time) (bool, error) {
	at, err := targetOf(spec, p.cfg.NodeName)
	if err != nil || p.UpdatePeriod(at.driver) == 0 {
		return false, err
	}
	attachment, err := p.storedAttachment(ctx, at)
	if err != nil || attachment == nil {
		return false, err
	}
	failure := attachment.Status.AttachError
	if failure == nil || failure.ErrorCode == nil || codes.Code(*failure.ErrorCode) != codes.ResourceExhausted ||
		!failure.Time.After(since) { // the API knows whole seconds: one of the same second may be from before
		return false, nil
	}
	if err := p.Refresh(ctx, at.driver); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "ask how many volumes the node can have", "driver", at.driver)
	}
	return true, nil
}

// Refresh asks a registered driver about the node, and writes into the node's CSINode what has changed since this was last done. A
// driver that is not registered is not asked.
//
// Differs: upstream reads the CSINode each time, and mends what somebody else has written there; also for a driver that is gone
// by then.
//
// Upstream: pkg/volume/csi updateCSIDriver, and nodeinfomanager UpdateCSIDriver (v1.36).
func (p *Plugin) Refresh(ctx context.Context, driver string) error {
	d, err := p.driver(driver)
	if err != nil {
		return nil //nolint:nilerr // it will be asked when it registers
	}
	info, err := d.client.NodeGetInfo(ctx, &csispec.NodeGetInfoRequest{})
	if err != nil {
		return fmt.Errorf("driver %s: NodeGetInfo: %w", driver, err)
	}
	defer p.lockDriver(driver)()
	entry := newDriverEntry(driver, info)
	if p.drivers[driver] != d || d.published != nil && equality.Semantic.DeepEqual(*d.published, entry) {
		return nil // that driver is gone, or there is no news
	}
	return p.updateDriverEntry(ctx, entry)
}

// newDriverEntry is what a driver says about the node, as its CSINode has it.
func newDriverEntry(driver string, info *csispec.NodeGetInfoResponse) storagev1.CSINodeDriver {
	entry := storagev1.CSINodeDriver{Name: driver, NodeID: info.GetNodeId(), TopologyKeys: topologyKeys(info)}
	if limit := info.GetMaxVolumesPerNode(); limit > 0 {
		count := int32(min(limit, 1<<31-1))
		entry.Allocatable = &storagev1.VolumeNodeResources{Count: &count}
	}
	return entry
}

// rememberDriverEntry remembers what the CSINode has of a driver.
func (p *Plugin) rememberDriverEntry(entry storagev1.CSINodeDriver) {
	if d, ok := p.drivers[entry.Name]; ok {
		entry.TopologyKeys = slices.Clone(entry.TopologyKeys)
		d.published = &entry
	}
}
