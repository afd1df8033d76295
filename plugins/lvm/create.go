package lvm

import (
	"context"
	"slices"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/lvm2"
	"github.com/volsim/volsim/plugins/blockcsi"
	"github.com/volsim/volsim/plugins/internal/csireq"
)

// The parameters of a storage class.
const (
	// layoutKey is how a volume lies on disks: linear (the default),
	// striped, raid1 or thin.
	layoutKey = "layout"
	// stripesKey is how many disks a striped volume lies on; 2 by default.
	stripesKey = "stripes"
	// mirrorsKey is how many copies of a raid1 volume there are beside the
	// first; 1 by default.
	mirrorsKey = "mirrors"

	mebibyte     = 1 << 20
	bytesDefault = 64 * mebibyte
	bytesMin     = 16 * mebibyte
	thinPool     = "thinpool"
)

// spec is what the parameters of a class say of a volume.
func (p *pool) spec(parameters map[string]string) (lvm2.Spec, error) {
	spec := lvm2.Spec{Layout: lvm2.Layout(parameters[layoutKey])}
	if spec.Layout == "" {
		spec.Layout = lvm2.Linear
	}
	offered := []lvm2.Layout{lvm2.Linear, lvm2.Striped, lvm2.RAID1, lvm2.Thin}
	if !slices.Contains(offered, spec.Layout) {
		return spec, status.Errorf(codes.InvalidArgument, "parameter %s: %q is not one of %q", layoutKey, spec.Layout, offered)
	}
	if !slices.Contains(p.caps.Layouts, spec.Layout) {
		return spec, status.Errorf(codes.InvalidArgument, "parameter %s: %s volumes take device-mapper, which is not on node %s", layoutKey, spec.Layout, p.node)
	}
	var err error
	if spec.Stripes, err = countParameter(parameters, stripesKey, spec.Layout == lvm2.Striped, 2); err != nil {
		return spec, err
	}
	spec.Mirrors, err = countParameter(parameters, mirrorsKey, spec.Layout == lvm2.RAID1, 1)
	return spec, err
}

// countParameter reads a number that only one layout has.
func countParameter(parameters map[string]string, key string, applies bool, least int) (int, error) {
	text, given := parameters[key]
	switch {
	case !given && applies:
		return least, nil
	case !given:
		return 0, nil
	case !applies:
		return 0, status.Errorf(codes.InvalidArgument, "parameter %s does not go with this layout", key)
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least {
		return 0, status.Errorf(codes.InvalidArgument, "parameter %s: %q is no number from %d on", key, text, least)
	}
	return n, nil
}

// Sizes implements blockcsi.Pool: 64 MiB if nothing is asked, at least 16 MiB,
// whole extents of every disk that a stripe lies on.
func (p *pool) Sizes(parameters map[string]string) csireq.Sizes {
	step := p.extentBytes
	if spec, err := p.spec(parameters); err == nil && spec.Layout == lvm2.Striped {
		step *= int64(spec.Stripes)
	}
	return csireq.Sizes{Default: bytesDefault, Min: bytesMin, Step: step}
}

// Create implements blockcsi.Pool.
func (p *pool) Create(ctx context.Context, wish blockcsi.VolumeSpec) (blockcsi.Volume, error) {
	if err := p.attachments.Remove(wish.ID); err != nil { // of one that was removed by hand
		return blockcsi.Volume{}, p.status(err)
	}
	lv, err := p.create(ctx, wish)
	if err != nil {
		return blockcsi.Volume{}, p.status(err)
	}
	report, err := p.group.Report(ctx)
	if err != nil {
		return blockcsi.Volume{}, p.status(err)
	}
	return volumeOf(report, lv), nil
}

func (p *pool) create(ctx context.Context, wish blockcsi.VolumeSpec) (lvm2.LogicalVolume, error) {
	spec, err := p.spec(wish.Parameters)
	if err != nil {
		return lvm2.LogicalVolume{}, err
	}
	spec.Name, spec.Size, spec.Tags = wish.ID, wish.SizeBytes, tagsFor(wish)
	if wish.From != nil {
		return p.copy(ctx, wish, spec)
	}
	if spec.Layout == lvm2.Thin {
		given, err := p.reserveThin(ctx, spec.Name, spec.Size)
		if err != nil {
			return lvm2.LogicalVolume{}, err
		}
		defer given()
		spec.Pool = thinPool
	}
	lv, err := p.group.Create(ctx, spec)
	if err == nil {
		err = p.group.Deactivate(ctx, lv.Name) // LVM may have given it a device
	}
	return lv, err
}

// copy makes a volume or a snapshot from another. LVM's own thin clones are in
// the pool of what they are made from.
func (p *pool) copy(ctx context.Context, wish blockcsi.VolumeSpec, spec lvm2.Spec) (lvm2.LogicalVolume, error) {
	from, err := p.find(ctx, wish.From.ID)
	if err != nil {
		return lvm2.LogicalVolume{}, err
	}
	isThin := from.Layout == lvm2.Thin
	if isThin || spec.Layout == lvm2.Thin {
		given, err := p.reserveThin(ctx, spec.Name, max(spec.Size, from.Size))
		if err != nil {
			return lvm2.LogicalVolume{}, err
		}
		defer given()
	}
	spec.Frozen = !p.Capabilities().CopyFreezes // then the services do it
	var lv lvm2.LogicalVolume
	if csireq.IsSnapshotID(wish.ID) {
		lv, err = p.group.Snapshot(ctx, from.Name, lvm2.Spec{Name: spec.Name, Tags: spec.Tags, Frozen: spec.Frozen})
	} else {
		lv, err = p.group.Clone(ctx, from.Name, cloneSpec(spec, isThin))
	}
	if err == nil {
		err = p.group.Deactivate(ctx, lv.Name) // LVM may have given it a device
	}
	return lv, err
}

// cloneSpec is what a clone is to be. Of a thin volume LVM makes a thin one at
// once, if that is what is wanted.
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
	room := blockcsi.Capacity{MinVolumeBytes: bytesMin}
	if spec.Layout == lvm2.Thin {
		p.reservedMu.Lock()
		room.FreeBytes = p.thinFreeBytes(report)
		p.reservedMu.Unlock()
		room.MaxVolumeBytes = room.FreeBytes
		return room, nil
	}
	room.FreeBytes = report.Free / int64(spec.Mirrors+1)
	room.MaxVolumeBytes, err = p.group.Largest(ctx, spec)
	return room, p.status(err)
}
