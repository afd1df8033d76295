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
// device-mapper it is a copy, and takes as much as the origin, which is kept still
// meanwhile: see Clone. Of spec only Name, Size, Tags and Still count. It is
// idempotent as Create is.
func (g *VolumeGroup) Snapshot(ctx context.Context, origin string, spec Spec) (LogicalVolume, error) {
	volume, err := g.copyOf(ctx, origin, spec, true)
	if err != nil {
		return LogicalVolume{}, fmt.Errorf("snapshot %s/%s as %s: %w", g.name, origin, spec.Name, err)
	}
	return volume.clone(), nil
}

// Clone makes a volume that holds what source holds now, and depends on it no
// more: in the source's pool if that is thin and spec has none, or else as a copy,
// in the layout of spec. It is as large as the source, or as spec.Size if that is
// more. While it copies, other volumes can be changed, but not these two. It is
// idempotent as Create is.
//
// What is copied is one instant: of a snapshot made for it, where there is
// device-mapper and room for one, or else of a mounted file system that is frozen
// meanwhile, which gives blockdev.ErrFrozen for one that somebody else has frozen. A
// volume that is used as a device, and not mounted where this process sees it, is
// not copied without a snapshot: that is ErrNoSpace where room is missing, and
// ErrInUse without device-mapper. With spec.Still, all this is the caller's concern.
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
		return LogicalVolume{}, errors.Join(err, g.withMetadata(undone, func() error { return g.remove(undone, to.Name) }))
	}
	err = g.withMetadata(ctx, func() (err error) {
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
			return from, found, found.checkCopy(from, spec, readOnly)
		}
		if err := g.remove(ctx, spec.Name); err != nil {
			return from, to, err
		}
	}
	if from.Layout == Thin && spec.Layout == "" && (spec.Pool == "" || spec.Pool == from.Pool) || readOnly && g.Capabilities().Snapshots {
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

// checkCopy gives ErrExists unless a volume is the copy that a specification asks for.
func (v LogicalVolume) checkCopy(from LogicalVolume, spec Spec, readOnly bool) error {
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
