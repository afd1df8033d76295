package lvm2

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

const (
	sectorSize = 512
	// unfinishedTag marks a volume that is still being created: its start is not wiped, or its copy
	// is incomplete. Such a volume is not visible to callers.
	unfinishedTag = "volsim.unfinished"
)

// Spec describes a volume.
type Spec struct {
	Name string
	Size int64 // in bytes; rounded up to whole extents
	// Layout is the layout; "" means Linear.
	Layout Layout
	// Stripes is the number of disks of a striped volume.
	Stripes int
	// Mirrors is the number of additional copies of a RAID1 volume; 0 means 1.
	Mirrors int
	// Pool is the thin pool of a thin volume.
	Pool string
	Tags []string
	// Frozen means that the caller of a copy has flushed and frozen the source until the call
	// returns.
	Frozen bool
}

// Create creates a volume. If one of that name exists with the same layout and pool, all of the
// tags and at least the size, Create returns it; otherwise it returns ErrExists. It returns
// ErrNoSpace without room, and ErrNotContiguous if the volume must be contiguous and cannot. Both
// change nothing. A new volume may be active.
func (g *VolumeGroup) Create(ctx context.Context, spec Spec) (LogicalVolume, error) {
	arguments, err := g.createArguments(&spec)
	if err != nil {
		return LogicalVolume{}, fmt.Errorf("create %s: %w", spec.Name, err)
	}
	needed := []string{spec.Name}
	if spec.Pool != "" {
		needed = append(needed, spec.Pool)
	}
	release, err := g.lock(ctx, needed...)
	if err != nil {
		return LogicalVolume{}, err
	}
	defer release()
	volume, err := g.create(ctx, spec, arguments)
	if err != nil {
		return LogicalVolume{}, fmt.Errorf("create %s/%s: %w", g.name, spec.Name, err)
	}
	return volume.clone(), nil
}

func (g *VolumeGroup) create(ctx context.Context, spec Spec, arguments []string) (LogicalVolume, error) {
	wipe := g.system.mode == Partitions && g.system.hasUnzeroedDisks()
	if wipe {
		arguments = append(arguments, "--addtag", unfinishedTag)
	}
	_, err := g.system.lvm(ctx, arguments...)
	if errors.Is(err, ErrExists) {
		volume, existsErr := g.existing(ctx, spec)
		if existsErr != nil || !volume.HasTags(unfinishedTag) {
			return volume, existsErr
		}
		if err := g.remove(ctx, spec.Name); err != nil {
			return LogicalVolume{}, err
		}
		_, err = g.system.lvm(ctx, arguments...)
	}
	if err != nil {
		return LogicalVolume{}, err
	}
	if wipe {
		return g.finish(ctx, spec.Name)
	}
	_, volume, err := g.find(ctx, spec.Name)
	return volume, err
}

// createArguments returns the command that creates a volume. It sets defaults in spec.
func (g *VolumeGroup) createArguments(spec *Spec) ([]string, error) {
	if err := errors.Join(checkNames(spec.Name), checkTags(spec.Tags)); err != nil {
		return nil, err
	}
	if spec.Size <= 0 {
		return nil, fmt.Errorf("size %d: %w", spec.Size, ErrInvalidArgument)
	}
	if spec.Layout == "" {
		spec.Layout = Linear
	}
	if spec.Layout == RAID1 && spec.Mirrors == 0 {
		spec.Mirrors = 1
	}
	if !g.Capabilities().has(spec.Layout) {
		return nil, fmt.Errorf("layout %s: %w", spec.Layout, ErrUnsupported)
	}
	size := byteSize(spec.Size)
	arguments := append([]string{"lvcreate", "-q", "-y", "-n", spec.Name}, tagOptions("--addtag", spec.Tags)...)
	arguments = append(arguments, g.system.activator.createOptions()...)
	switch spec.Layout {
	case Linear:
		return append(arguments, "-L", size, g.name), nil
	case Striped:
		if spec.Stripes < 2 {
			return nil, fmt.Errorf("%d stripes: %w", spec.Stripes, ErrInvalidArgument)
		}
		return append(arguments, "--type", "striped", "-i", strconv.Itoa(spec.Stripes), "-L", size, g.name), nil
	case RAID1:
		return append(arguments, "--type", "raid1", "-m", strconv.Itoa(spec.Mirrors), "-L", size, g.name), nil
	case ThinPool:
		return append(arguments, "--type", "thin-pool", "-L", size, g.name), nil
	case Thin:
		if err := checkNames(spec.Pool); err != nil {
			return nil, fmt.Errorf("pool: %w", err)
		}
		return append(arguments, "--type", "thin", "-V", size, "--thinpool", spec.Pool, g.name), nil
	case Snapshot:
	}
	return nil, fmt.Errorf("layout %q: %w", spec.Layout, ErrInvalidArgument)
}

// byteSize formats a size for LVM, rounded up to sectors.
func byteSize(size int64) string {
	return strconv.FormatInt((size+sectorSize-1)/sectorSize*sectorSize, 10) + "b"
}

// existing returns the volume with the name of a specification, if it matches or is unfinished.
func (g *VolumeGroup) existing(ctx context.Context, spec Spec) (LogicalVolume, error) {
	_, volume, err := g.find(ctx, spec.Name)
	if err != nil {
		return LogicalVolume{}, err
	}
	fits := volume.Layout == spec.Layout && volume.Pool == spec.Pool && volume.Size >= spec.Size &&
		volume.HasTags(spec.Tags...)
	if !fits && !volume.HasTags(unfinishedTag) {
		return LogicalVolume{}, fmt.Errorf("%w: it is %s of %d bytes, tags %q", ErrExists, volume.Layout, volume.Size,
			volume.Tags)
	}
	return volume, nil
}

// Find returns a volume by name, or ErrNotFound.
func (g *VolumeGroup) Find(ctx context.Context, name string) (LogicalVolume, error) {
	_, volume, err := g.find(ctx, name)
	if err == nil && volume.HasTags(unfinishedTag) {
		err = fmt.Errorf("%s/%s: %w: it is being made", g.name, name, ErrNotFound)
	}
	return volume.clone(), err
}

// List returns the volumes with all of the tags, sorted by name.
func (g *VolumeGroup) List(ctx context.Context, tags ...string) ([]LogicalVolume, error) {
	report, err := g.Report(ctx)
	if err != nil {
		return nil, err
	}
	var found []LogicalVolume
	for _, volume := range report.LogicalVolumes {
		if volume.HasTags(tags...) && !volume.HasTags(unfinishedTag) {
			found = append(found, volume.clone())
		}
	}
	return found, nil
}

// find reads the volume group and returns the volume of a name.
func (g *VolumeGroup) find(ctx context.Context, name string) (*Report, LogicalVolume, error) {
	report, err := g.Report(ctx)
	if err != nil {
		return nil, LogicalVolume{}, err
	}
	volume, ok := report.Find(name)
	if !ok && report.IsMoving(name) {
		return nil, LogicalVolume{}, fmt.Errorf("%s/%s is being moved", g.name, name)
	}
	if !ok {
		return nil, LogicalVolume{}, fmt.Errorf("%s/%s: %w", g.name, name, ErrNotFound)
	}
	return report, volume, nil
}

// Extend grows a volume, in use or not, and its device if it is active. A volume of at least that
// size is left unchanged. Without device-mapper, an inactive volume without room behind it is
// copied to where there is room. The copy is another volume of the same name. If the volume is
// active, or there is no room, Extend returns ErrNotContiguous.
func (g *VolumeGroup) Extend(ctx context.Context, name string, size int64) (LogicalVolume, error) {
	if err := checkNames(name); err != nil {
		return LogicalVolume{}, err
	}
	leave, err := g.volumes.acquire(ctx, name)
	if err != nil {
		return LogicalVolume{}, err
	}
	defer leave()
	var volume LogicalVolume
	extend := func() (err error) {
		volume, err = g.extend(ctx, name, size)
		return err
	}
	err = g.withMetadata(ctx, extend)
	if errors.Is(err, ErrNotContiguous) && g.isInactive(ctx, name) {
		if err = g.relocate(ctx, volume, size); err == nil {
			err = g.withMetadata(ctx, extend)
		}
	}
	if err != nil {
		return LogicalVolume{}, fmt.Errorf("extend %s/%s to %d bytes: %w", g.name, name, size, err)
	}
	return volume.clone(), nil
}

// extend also returns the volume if it cannot be extended.
func (g *VolumeGroup) extend(ctx context.Context, name string, size int64) (LogicalVolume, error) {
	report, volume, err := g.find(ctx, name)
	if err != nil {
		return volume, err
	}
	if volume.Size < size {
		if _, err := g.system.lvm(ctx, "lvextend", "-q", "-y", "-L", byteSize(size), g.name+"/"+name); err != nil {
			return volume, err
		}
		if report, volume, err = g.find(ctx, name); err != nil {
			return volume, err
		}
	}
	return volume, g.system.activator.resize(report, volume)
}

// isInactive reports whether a volume has no device.
func (g *VolumeGroup) isInactive(ctx context.Context, name string) bool {
	active, err := g.Active(ctx, name)
	return err == nil && active.Device == ""
}

// Rename renames a volume. If only the new name exists, nothing changes. If both exist, Rename
// returns ErrExists.
func (g *VolumeGroup) Rename(ctx context.Context, from, to string) error {
	if err := checkNames(from, to); err != nil {
		return err
	}
	release, err := g.lock(ctx, from, to)
	if err != nil {
		return err
	}
	defer release()
	_, err = g.system.lvm(ctx, "lvrename", "-q", g.name, from, to)
	if errors.Is(err, ErrNotFound) {
		_, _, err = g.find(ctx, to)
	}
	return err
}

// Tag adds and removes tags of a volume in one change.
func (g *VolumeGroup) Tag(ctx context.Context, name string, add, remove []string) error {
	if err := errors.Join(checkNames(name), checkTags(add), checkTags(remove)); err != nil {
		return err
	}
	if len(add)+len(remove) == 0 {
		return nil
	}
	leave, err := g.volumes.acquire(ctx, name)
	if err != nil {
		return err
	}
	defer leave()
	return g.batch(ctx, tagging(add, remove), &batchRequest{names: []string{name}})
}

// tag works like Tag for a caller that holds the locks of the volume and of the metadata.
func (g *VolumeGroup) tag(ctx context.Context, name string, add, remove []string) error {
	_, err := g.system.lvm(ctx, append(tagging(add, remove), g.name+"/"+name)...)
	return err
}

// tagging returns the command that changes tags.
func tagging(add, remove []string) []string {
	return slices.Concat([]string{"lvchange", "-q"}, tagOptions("--addtag", add), tagOptions("--deltag", remove))
}

// Remove deactivates and removes volumes in one change. No content of them can be read from the
// disks afterwards. Missing volumes are not an error. Remove removes none and returns ErrInUse if
// any of them is in use, or is the origin or the pool of a remaining volume. It returns
// ErrMissingDevice if the disk of one is missing.
func (g *VolumeGroup) Remove(ctx context.Context, names ...string) error {
	if err := checkNames(names...); err != nil || len(names) == 0 {
		return err
	}
	leave, err := g.volumes.acquire(ctx, names...)
	if err != nil {
		return err
	}
	defer leave()
	report, found, err := g.prepareRemoval(ctx, names)
	if err != nil || len(found) == 0 {
		return err
	}
	return g.batch(ctx, removal, &batchRequest{
		names: namesOf(found),
		after: func() error { return g.system.activator.afterRemove(report, found) },
		retryError: func(err error) error {
			if errors.Is(err, ErrNotFound) {
				return nil // the first attempt removed it
			}
			return err
		},
	})
}

func namesOf(volumes []LogicalVolume) []string {
	var names []string
	for _, each := range volumes {
		names = append(names, each.Name)
	}
	return names
}

// removal is the command that removes volumes.
var removal = []string{"lvremove", "-q", "-y"}

// remove works like Remove for a caller that holds the locks of the volumes and of the metadata.
func (g *VolumeGroup) remove(ctx context.Context, names ...string) error {
	report, found, err := g.prepareRemoval(ctx, names)
	if err != nil || len(found) == 0 {
		return err
	}
	arguments := slices.Clone(removal)
	for _, volume := range found {
		arguments = append(arguments, g.name+"/"+volume.Name)
	}
	if _, err := g.system.lvm(ctx, arguments...); err != nil {
		return err
	}
	return g.system.activator.afterRemove(report, found)
}

// prepareRemoval prepares the existing volumes among names for removal, which may take long, and
// returns them.
func (g *VolumeGroup) prepareRemoval(
	ctx context.Context, names []string,
) (report *Report, found []LogicalVolume, err error) {
	report, err = g.Report(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, volume := range report.LogicalVolumes {
		if slices.Contains(names, volume.Name) {
			found = append(found, volume)
		} else if volume.needsOneOf(names) {
			return nil, nil, fmt.Errorf("remove %q of %s: %w: %s depends on it", names, g.name, ErrInUse, volume.Name)
		}
	}
	for _, volume := range found {
		if volume.isPartial() {
			return nil, nil, fmt.Errorf("remove %s/%s: %w: its content cannot be wiped", g.name, volume.Name,
				ErrMissingDevice)
		}
		if err := g.system.activator.ensureUnused(ctx, report, volume); err != nil {
			return nil, nil, fmt.Errorf("remove %s/%s: %w", g.name, volume.Name, err)
		}
	}
	for _, volume := range found {
		if err := g.system.activator.prepareRemoval(ctx, report, volume); err != nil {
			return nil, nil, fmt.Errorf("remove %s/%s: %w", g.name, volume.Name, err)
		}
	}
	return report, found, nil
}

// isPartial reports whether a volume lies on a missing disk.
func (v LogicalVolume) isPartial() bool {
	return v.Health == "partial" ||
		slices.ContainsFunc(v.Extents, func(e Extent) bool { return e.PhysicalVolume == "" })
}

// needsOneOf reports whether LVM would remove a volume together with one of names. A thin snapshot
// outlives its origin.
func (v LogicalVolume) needsOneOf(names []string) bool {
	return slices.Contains(names, v.Pool) || v.Layout != Thin && slices.Contains(names, v.Origin)
}

// finish wipes the ends of a new volume, where old signatures may be, and makes it visible.
func (g *VolumeGroup) finish(ctx context.Context, name string) (LogicalVolume, error) {
	report, volume, err := g.find(ctx, name)
	if err != nil {
		return LogicalVolume{}, err
	}
	if err := g.system.wipeEnds(report, volume); err != nil {
		return LogicalVolume{}, err
	}
	if err := g.tag(ctx, name, nil, []string{unfinishedTag}); err != nil {
		return LogicalVolume{}, err
	}
	volume = volume.clone()
	volume.Tags = slices.DeleteFunc(volume.Tags, func(tag string) bool { return tag == unfinishedTag })
	return volume, nil
}
