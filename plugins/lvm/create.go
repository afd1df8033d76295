package lvm

import (
	"context"
	"slices"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/blockcsi"
	"github.com/volsim/volsim/internal/csireq"
	"github.com/volsim/volsim/internal/lvm2"
)

// The parameters of a storage class.
const (
	// layoutKey selects the layout of a volume: linear (the default), striped, raid1 or thin.
	layoutKey = "layout"
	// stripesKey is the number of disks of a striped volume; the default is 2.
	stripesKey = "stripes"
	// mirrorsKey is the number of additional copies of a raid1 volume; the default is 1.
	mirrorsKey = "mirrors"

	mebibyte     = 1 << 20
	bytesDefault = 64 * mebibyte
	bytesMin     = 16 * mebibyte
	thinPool     = "thinpool"
)

// spec converts the parameters of a class.
func (p *pool) spec(parameters map[string]string) (lvm2.Spec, error) {
	spec := lvm2.Spec{Layout: lvm2.Layout(parameters[layoutKey])}
	if spec.Layout == "" {
		spec.Layout = lvm2.Linear
	}
	offered := []lvm2.Layout{lvm2.Linear, lvm2.Striped, lvm2.RAID1, lvm2.Thin}
	if !slices.Contains(offered, spec.Layout) {
		return spec, status.Errorf(codes.InvalidArgument, "parameter %s: unknown layout %q (have %q)", layoutKey,
			spec.Layout, offered)
	}
	if !slices.Contains(p.caps.Layouts, spec.Layout) {
		return spec, status.Errorf(codes.InvalidArgument,
			"parameter %s: %s volumes need device-mapper, which node %s lacks", layoutKey, spec.Layout, p.node)
	}
	var err error
	if spec.Stripes, err = countParameter(parameters, stripesKey, spec.Layout == lvm2.Striped, 2); err != nil {
		return spec, err
	}
	spec.Mirrors, err = countParameter(parameters, mirrorsKey, spec.Layout == lvm2.RAID1, 1)
	return spec, err
}

// countParameter reads a number that applies to one layout only.
func countParameter(parameters map[string]string, key string, applies bool, least int) (int, error) {
	text, isSet := parameters[key]
	switch {
	case !isSet && applies:
		return least, nil
	case !isSet:
		return 0, nil
	case !applies:
		return 0, status.Errorf(codes.InvalidArgument, "parameter %s does not apply to this layout", key)
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least {
		return 0, status.Errorf(codes.InvalidArgument, "parameter %s: %q is not a number of at least %d", key, text,
			least)
	}
	return n, nil
}

// Sizes implements blockcsi.Pool: 64 MiB by default, at least 16 MiB, whole extents on every disk
// of a stripe.
func (p *pool) Sizes(parameters map[string]string) csireq.Sizes {
	step := p.extentBytes
	if spec, err := p.spec(parameters); err == nil && spec.Layout == lvm2.Striped {
		step *= int64(spec.Stripes)
	}
	return csireq.Sizes{Default: bytesDefault, Min: bytesMin, Step: step}
}

// Create implements blockcsi.Pool.
func (p *pool) Create(ctx context.Context, wanted blockcsi.VolumeSpec) (blockcsi.Volume, error) {
	if err := p.attachments.Remove(wanted.ID); err != nil { // of a volume that was removed manually
		return blockcsi.Volume{}, p.status(err)
	}
	lv, err := p.create(ctx, wanted)
	if err != nil {
		return blockcsi.Volume{}, p.status(err)
	}
	report, err := p.group.Report(ctx)
	if err != nil {
		return blockcsi.Volume{}, p.status(err)
	}
	return volumeOf(report, lv), nil
}

func (p *pool) create(ctx context.Context, wanted blockcsi.VolumeSpec) (lvm2.LogicalVolume, error) {
	spec, err := p.spec(wanted.Parameters)
	if err != nil {
		return lvm2.LogicalVolume{}, err
	}
	spec.Name, spec.Size, spec.Tags = wanted.ID, wanted.SizeBytes, tagsFor(wanted)
	if wanted.From != nil {
		return p.copy(ctx, wanted, spec)
	}
	if spec.Layout == lvm2.Thin {
		release, err := p.reserveThin(ctx, spec.Name, spec.Size)
		if err != nil {
			return lvm2.LogicalVolume{}, err
		}
		defer release()
		spec.Pool = thinPool
	}
	lv, err := p.group.Create(ctx, spec)
	if err == nil {
		err = p.group.Deactivate(ctx, lv.Name) // LVM may have activated it
	}
	return lv, err
}

// copy creates a volume or a snapshot from another one. Thin clones of LVM are in the pool of their
// source.
func (p *pool) copy(ctx context.Context, wanted blockcsi.VolumeSpec, spec lvm2.Spec) (lvm2.LogicalVolume, error) {
	from, err := p.find(ctx, wanted.From.ID)
	if err != nil {
		return lvm2.LogicalVolume{}, err
	}
	isThin := from.Layout == lvm2.Thin
	if isThin || spec.Layout == lvm2.Thin {
		release, err := p.reserveThin(ctx, spec.Name, max(spec.Size, from.Size))
		if err != nil {
			return lvm2.LogicalVolume{}, err
		}
		defer release()
	}
	spec.Frozen = !p.Capabilities().CopyFreezes // blockcsi freezes then
	var lv lvm2.LogicalVolume
	if csireq.IsSnapshotID(wanted.ID) {
		lv, err = p.group.Snapshot(ctx, from.Name, lvm2.Spec{Name: spec.Name, Tags: spec.Tags, Frozen: spec.Frozen})
	} else {
		lv, err = p.group.Clone(ctx, from.Name, cloneSpec(spec, isThin))
	}
	if err == nil {
		err = p.group.Deactivate(ctx, lv.Name) // LVM may have activated it
	}
	return lv, err
}

// cloneSpec returns the specification of a clone. LVM clones a thin volume to a thin one at once.
func cloneSpec(spec lvm2.Spec, fromThin bool) lvm2.Spec {
	switch {
	case spec.Layout == lvm2.Thin && fromThin:
		spec.Layout = ""
	case spec.Layout == lvm2.Thin:
		spec.Pool = thinPool
	}
	return spec
}

// Capacity implements blockcsi.Pool.
func (p *pool) Capacity(ctx context.Context, parameters map[string]string) (blockcsi.Capacity, error) {
	spec, err := p.spec(parameters)
	if err != nil {
		return blockcsi.Capacity{}, err
	}
	report, err := p.group.Report(ctx)
	if err != nil {
		return blockcsi.Capacity{}, p.status(err)
	}
	capacity := blockcsi.Capacity{MinVolumeBytes: bytesMin}
	if spec.Layout == lvm2.Thin {
		p.reservedMu.Lock()
		capacity.FreeBytes = p.thinFreeBytes(report)
		p.reservedMu.Unlock()
		capacity.MaxVolumeBytes = capacity.FreeBytes
		return capacity, nil
	}
	capacity.FreeBytes = report.Free / int64(spec.Mirrors+1)
	capacity.MaxVolumeBytes, err = p.group.Largest(ctx, spec)
	return capacity, p.status(err)
}
