package lvm2

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// sourceTag precedes the name of the source in the tag of an unfinished copy.
const sourceTag = "volsim.source="

// Snapshot creates a read-only volume with the current content of origin. A mounted file system
// looks as if it had been unmounted. A snapshot of a thin volume shares its pool.
//
// With device-mapper, a snapshot of another volume reserves spec.Size bytes for data that the
// origin overwrites. 0 reserves room for all of it. The origin cannot be removed before the
// snapshot. Without device-mapper the snapshot is a full copy, and the origin is frozen meanwhile:
// see Clone. Only Name, Size, Tags and Frozen of spec apply. Snapshot is idempotent as Create is.
func (g *VolumeGroup) Snapshot(ctx context.Context, origin string, spec Spec) (LogicalVolume, error) {
	volume, err := g.copyOf(ctx, origin, spec, true)
	if err != nil {
		return LogicalVolume{}, fmt.Errorf("snapshot %s/%s as %s: %w", g.name, origin, spec.Name, err)
	}
	return volume.clone(), nil
}

// Clone creates a volume with the current content of source, and independent of it. If source is
// thin and spec names no other pool or layout, the clone is thin in the same pool. Otherwise it is
// a full copy in the layout of spec. It is as large as source, or as spec.Size if that is larger.
// During the copy other volumes can change, but not these two. Clone is idempotent as Create is.
//
// The copy has the content of one instant. With device-mapper and enough room it is copied from a
// temporary snapshot. Otherwise a mounted file system is frozen meanwhile. A file system that is
// already frozen returns blockdev.ErrFrozen. A volume that is used as a device, and not mounted
// where this process sees it, is not copied without a snapshot. That returns ErrNoSpace if there is
// no room for one, and ErrInUse without device-mapper. With spec.Frozen all this is left to the
// caller.
func (g *VolumeGroup) Clone(ctx context.Context, source string, spec Spec) (LogicalVolume, error) {
	volume, err := g.copyOf(ctx, source, spec, false)
	if err != nil {
		return LogicalVolume{}, fmt.Errorf("clone %s/%s as %s: %w", g.name, source, spec.Name, err)
	}
	return volume.clone(), nil
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
	err = g.withMetadata(ctx, func() (err error) {
		from, to, err = g.beginCopy(ctx, source, spec, readOnly)
		return err
	})
	if err != nil || !to.HasTags(unfinishedTag) {
		return to, err
	}
	if err := g.copy(ctx, from, to, spec.Frozen); err != nil {
		undone := context.WithoutCancel(ctx)
		return LogicalVolume{},
			errors.Join(err, g.withMetadata(undone, func() error { return g.remove(undone, to.Name) }))
	}
	err = g.withMetadata(ctx, func() (err error) {
		to, err = g.endCopy(ctx, to, readOnly)
		return err
	})
	return to, err
}

// beginCopy creates a snapshot if LVM supports it. Otherwise it creates an unfinished volume as the
// target of a copy.
func (g *VolumeGroup) beginCopy(
	ctx context.Context, source string, spec Spec, readOnly bool,
) (from, to LogicalVolume, err error) {
	report, from, err := g.find(ctx, source)
	if err != nil {
		return from, to, err
	}
	if from.HasTags(unfinishedTag) {
		return from, to, ErrNotFound
	}
	if found, ok := report.Find(spec.Name); ok {
		if !found.HasTags(unfinishedTag) {
			return from, found, found.checkCopy(from, spec, readOnly)
		}
		if err := g.remove(ctx, spec.Name); err != nil {
			return from, to, err
		}
	}
	if from.Layout == Thin && spec.Layout == "" && (spec.Pool == "" || spec.Pool == from.Pool) ||
		readOnly && g.Capabilities().Snapshots {
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

// checkCopy returns ErrExists unless a volume is the copy that spec describes.
func (v LogicalVolume) checkCopy(from LogicalVolume, spec Spec, readOnly bool) error {
	if !v.HasTags(spec.Tags...) || v.ReadOnly != readOnly || !readOnly && v.Size < max(spec.Size, from.Size) {
		return fmt.Errorf("%w: it is %s of %d bytes, tags %q", ErrExists, v.Layout, v.Size, v.Tags)
	}
	return nil
}

// snapshot creates an LVM snapshot. It is writable if it will be a clone.
func (g *VolumeGroup) snapshot(
	ctx context.Context, from LogicalVolume, spec Spec, readOnly bool,
) (LogicalVolume, error) {
	permission := "rw"
	if readOnly {
		permission = "r"
	}
	arguments := []string{"lvcreate", "-q", "-y", "-s", "-kn", "-n", spec.Name, "--permission", permission}
	arguments = append(arguments, tagOptions("--addtag", spec.Tags)...)
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

// snapshotSize returns the size of a snapshot that can hold all of an origin and its exception
// table: one chunk of 256 is metadata. LVM limits it to what can be used.
func snapshotSize(origin int64) int64 { return origin + origin/128 + 1<<20 }

// endCopy makes a complete copy visible.
func (g *VolumeGroup) endCopy(ctx context.Context, to LogicalVolume, readOnly bool) (LogicalVolume, error) {
	var done []string
	for _, tag := range to.Tags {
		if tag == unfinishedTag || len(tag) > len(sourceTag) && tag[:len(sourceTag)] == sourceTag {
			done = append(done, tag)
		}
	}
	arguments := append([]string{"lvchange", "-q"}, tagOptions("--deltag", done)...)
	if readOnly {
		arguments = append(arguments, "--permission", "r")
	}
	if _, err := g.system.lvm(ctx, append(arguments, g.name+"/"+to.Name)...); err != nil {
		return LogicalVolume{}, err
	}
	_, to, err := g.find(ctx, to.Name)
	return to, err
}
