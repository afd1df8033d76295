package lvm2

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// sourceTag is on an unfinished copy, before the name of what it is a copy of.
const sourceTag = "volsim.source="

// Snapshot makes a volume that cannot be written to and holds what origin holds
// now; a file system that is mounted is as if it had been unmounted. Where the
// origin is thin the snapshot shares its pool. Otherwise, with device-mapper, it
// takes spec.Size bytes of what the origin loses as it is written to, or all of it
// if that is 0; the origin cannot be removed before it. Without
// device-mapper it is a copy, and takes as much as the origin. Of spec only Name,
// Size and Tags count. It is idempotent as Create is.
func (g *VolumeGroup) Snapshot(ctx context.Context, origin string, spec Spec) (LogicalVolume, error) {
	volume, err := g.copyOf(ctx, origin, spec, true)
	if err != nil {
		return LogicalVolume{}, fmt.Errorf("snapshot %s/%s as %s: %w", g.name, origin, spec.Name, err)
	}
	return volume, nil
}

// Clone makes a volume that holds what source holds now, and depends on it no
// more: in the source's pool if that is thin and spec has none, or else as a copy,
// in the layout of spec. It is as large as the source, or as spec.Size if that is
// more. While it copies, other volumes can be changed, but not these two. It is
// idempotent as Create is.
func (g *VolumeGroup) Clone(ctx context.Context, source string, spec Spec) (LogicalVolume, error) {
	volume, err := g.copyOf(ctx, source, spec, false)
	if err != nil {
		return LogicalVolume{}, fmt.Errorf("clone %s/%s as %s: %w", g.name, source, spec.Name, err)
	}
	return volume, nil
}

func (g *VolumeGroup) copyOf(ctx context.Context, source string, spec Spec, readOnly bool) (LogicalVolume, error) {
	if err := errors.Join(checkNames(source, spec.Name), checkTags(spec.Tags)); err != nil {
		return LogicalVolume{}, err
	}
	leave, err := g.volumes.acquire(ctx, source, spec.Name)
	if err != nil {
		return LogicalVolume{}, err
	}
	defer leave()
	var from, to LogicalVolume
	err = g.change(ctx, func() (err error) {
		from, to, err = g.beginCopy(ctx, source, spec, readOnly)
		return err
	})
	if err != nil || !to.HasTags(unfinishedTag) {
		return to, err
	}
	if err := g.copy(ctx, from, to); err != nil {
		undone := context.WithoutCancel(ctx)
		return LogicalVolume{}, errors.Join(err, g.change(undone, func() error { return g.remove(undone, to.Name) }))
	}
	err = g.change(ctx, func() (err error) {
		to, err = g.endCopy(ctx, to, readOnly)
		return err
	})
	return to, err
}

// beginCopy makes a snapshot by LVM if it can do it, or a volume that is to be
// copied to: that one is unfinished.
func (g *VolumeGroup) beginCopy(ctx context.Context, source string, spec Spec, readOnly bool) (from, to LogicalVolume, err error) {
	report, from, err := g.find(ctx, source)
	if err != nil {
		return from, to, err
	}
	if from.HasTags(unfinishedTag) {
		return from, to, ErrNotFound
	}
	if found, ok := report.Find(spec.Name); ok {
		if !found.HasTags(unfinishedTag) {
			return from, found, found.mustBe(from, spec, readOnly)
		}
		if err := g.remove(ctx, spec.Name); err != nil {
			return from, to, err
		}
	}
	if from.Layout == Thin && spec.Layout == "" && (spec.Pool == "" || spec.Pool == from.Pool) || readOnly && g.Caps().Snapshots {
		to, err = g.snapshot(ctx, from, spec, readOnly)
		return from, to, err
	}
	spec.Size = max(spec.Size, from.Size)
	if readOnly {
		spec.Size, spec.Layout = from.Size, Linear
	}
	spec.Tags = append(slices.Clone(spec.Tags), unfinishedTag, sourceTag+source)
	arguments, err := g.createArguments(&spec)
	if err != nil {
		return from, to, err
	}
	if _, err := g.system.lvm(ctx, arguments...); err != nil {
		return from, to, err
	}
	_, to, err = g.find(ctx, spec.Name)
	return from, to, err
}

// mustBe gives ErrExists unless a volume is the copy that a specification asks for.
func (v LogicalVolume) mustBe(from LogicalVolume, spec Spec, readOnly bool) error {
	if !v.HasTags(spec.Tags...) || v.ReadOnly != readOnly || !readOnly && v.Size < max(spec.Size, from.Size) {
		return fmt.Errorf("%w: it is %s of %d bytes, tags %q", ErrExists, v.Layout, v.Size, v.Tags)
	}
	return nil
}

// snapshot lets LVM make a snapshot, which is writable if it is to be a clone.
func (g *VolumeGroup) snapshot(ctx context.Context, from LogicalVolume, spec Spec, readOnly bool) (LogicalVolume, error) {
	permission := "rw"
	if readOnly {
		permission = "r"
	}
	arguments := []string{"lvcreate", "-q", "-y", "-s", "-kn", "-n", spec.Name, "--permission", permission}
	arguments = append(arguments, tagged("--addtag", spec.Tags)...)
	if from.Layout != Thin {
		if spec.Size == 0 {
			spec.Size = snapshotSize(from.Size)
		}
		arguments = append(arguments, "-L", byteSize(spec.Size))
	}
	if _, err := g.system.lvm(ctx, append(arguments, g.name+"/"+from.Name)...); err != nil {
		return LogicalVolume{}, err
	}
	_, to, err := g.find(ctx, spec.Name)
	if err != nil || readOnly || to.Size >= spec.Size {
		return to, err
	}
	if _, err := g.system.lvm(ctx, "lvextend", "-q", "-y", "-L", byteSize(spec.Size), g.name+"/"+to.Name); err != nil {
		return LogicalVolume{}, err
	}
	_, to, err = g.find(ctx, spec.Name)
	return to, err
}

// snapshotSize is what a snapshot takes up that holds all of an origin, and where
// each part of it belongs: of 256 chunks, one tells of the others. LVM takes no
// more than can be used.
func snapshotSize(origin int64) int64 { return origin + origin/128 + 1<<20 }

// endCopy lets others see a copy that is whole.
func (g *VolumeGroup) endCopy(ctx context.Context, to LogicalVolume, readOnly bool) (LogicalVolume, error) {
	var done []string
	for _, tag := range to.Tags {
		if tag == unfinishedTag || len(tag) > len(sourceTag) && tag[:len(sourceTag)] == sourceTag {
			done = append(done, tag)
		}
	}
	arguments := append([]string{"lvchange", "-q"}, tagged("--deltag", done)...)
	if readOnly {
		arguments = append(arguments, "--permission", "r")
	}
	if _, err := g.system.lvm(ctx, append(arguments, g.name+"/"+to.Name)...); err != nil {
		return LogicalVolume{}, err
	}
	_, to, err := g.find(ctx, to.Name)
	return to, err
}

// copy copies a volume's content to one that is as LVM made it. Whoever calls it
// has the locks of both volumes, and not that of the metadata.
func (g *VolumeGroup) copy(ctx context.Context, from, to LogicalVolume) (err error) {
	still, release, err := g.still(ctx, from, to.Name+".source")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	report, err := g.Report(ctx)
	if err != nil {
		return err
	}
	return g.system.activator.copy(ctx, report, still, to)
}

// still returns a volume that holds what another one holds now, and does not
// change before it is released: a snapshot, of a name that is free, if that is
// possible and there is room for it. Otherwise it is the volume itself, with a file
// system on it frozen.
func (g *VolumeGroup) still(ctx context.Context, volume LogicalVolume, name string) (still LogicalVolume, release func() error, err error) {
	report, err := g.Report(ctx)
	if err != nil {
		return volume, nil, err
	}
	device, err := g.system.activator.find(report, volume)
	if err != nil {
		return volume, nil, err
	}
	isThick := volume.Layout == Linear || volume.Layout == Striped || volume.Layout == RAID1
	switch {
	case device == "":
		return volume, func() error { return nil }, nil
	case g.Caps().Snapshots && isThick && !volume.ReadOnly && report.Free > volume.Size:
		return g.moment(ctx, volume, name)
	}
	release, err = freeze(device)
	return volume, release, err
}

// moment makes a snapshot that is there until it is released.
func (g *VolumeGroup) moment(ctx context.Context, volume LogicalVolume, name string) (snapshot LogicalVolume, release func() error, err error) {
	err = g.change(ctx, func() (err error) {
		snapshot, err = g.snapshot(ctx, volume, Spec{Name: name, Tags: []string{unfinishedTag}}, true)
		return err
	})
	after := context.WithoutCancel(ctx)
	return snapshot, func() error { return g.change(after, func() error { return g.remove(after, name) }) }, err
}

// freeze keeps a device's file system from being written to, if it is mounted,
// and writes what is in memory to the device.
func freeze(device string) (thaw func() error, err error) {
	thaw = func() error { return nil }
	mounts, err := mountsOf(device)
	if err != nil {
		return nil, err
	}
	if len(mounts) > 0 {
		if thaw, err = freezeMount(mounts[0]); err != nil {
			return nil, err
		}
	}
	if err := syncDevice(device); err != nil {
		return nil, errors.Join(err, thaw())
	}
	return thaw, nil
}

// throughDevices copies a volume by the devices of both. If the target is known to
// read as zeros, zeros are not written.
func throughDevices(ctx context.Context, a activator, report *Report, from, to LogicalVolume, zeroed bool) error {
	return through(ctx, a, report, from, func(source string) error {
		return through(ctx, a, report, to, func(target string) error {
			return copyDevice(ctx, source, target, from.Size, zeroed)
		})
	})
}

// through runs f with the device of a volume, which is active at least that long.
func through(ctx context.Context, a activator, report *Report, volume LogicalVolume, f func(device string) error) error {
	device, err := a.find(report, volume)
	if err == nil && device != "" {
		return f(device)
	}
	if err == nil {
		device, err = a.activate(ctx, report, volume)
	}
	if err != nil {
		return err
	}
	return errors.Join(f(device), a.deactivate(context.WithoutCancel(ctx), report, volume))
}
