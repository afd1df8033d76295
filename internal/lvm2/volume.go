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
	// unfinishedTag is on a volume that is not yet what it is to be: its beginning is
	// not wiped, or what it is a copy of is not in it. Nobody but us has seen it.
	unfinishedTag = "volsim.unfinished"
)

// Spec is what a volume is to be.
type Spec struct {
	Name string
	Size int64 // bytes; rounded up to whole extents
	// Layout is Linear if it is "".
	Layout Layout
	// Stripes is how many disks a striped volume lies on.
	Stripes int
	// Mirrors is how many copies a RAID1 volume has beside the first: 0 means 1.
	Mirrors int
	// Pool is the thin pool of a thin volume.
	Pool string
	Tags []string
	// Frozen says, of a copy, that whoever calls keeps its source as it is until the call
	// returns, and has what was written to the file system on it be on its device.
	Frozen bool
}

// Create makes a volume, or returns the one of that name if it is what was asked
// for: it has that layout and pool and all of the tags, and is no smaller. For
// another it gives ErrExists. It gives ErrNoSpace, and ErrNotContiguous where the
// volume must lie in one piece; both change nothing. A new volume may be active.
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

// createArguments returns the command that makes a volume. It fills in what is not said.
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

// byteSize is a size as LVM takes it, rounded up to sectors.
func byteSize(size int64) string {
	return strconv.FormatInt((size+sectorSize-1)/sectorSize*sectorSize, 10) + "b"
}

// existing returns the volume that has the name of a specification, if it fits
// or is unfinished.
func (g *VolumeGroup) existing(ctx context.Context, spec Spec) (LogicalVolume, error) {
	_, volume, err := g.find(ctx, spec.Name)
	if err != nil {
		return LogicalVolume{}, err
	}
	fits := volume.Layout == spec.Layout && volume.Pool == spec.Pool && volume.Size >= spec.Size && volume.HasTags(spec.Tags...)
	if !fits && !volume.HasTags(unfinishedTag) {
		return LogicalVolume{}, fmt.Errorf("%w: it is %s of %d bytes, tags %q", ErrExists, volume.Layout, volume.Size, volume.Tags)
	}
	return volume, nil
}

// Find returns a volume by its name. It gives ErrNotFound if the volume group has none.
func (g *VolumeGroup) Find(ctx context.Context, name string) (LogicalVolume, error) {
	_, volume, err := g.find(ctx, name)
	if err == nil && volume.HasTags(unfinishedTag) {
		err = fmt.Errorf("%s/%s: %w: it is being made", g.name, name, ErrNotFound)
	}
	return volume.clone(), err
}

// List returns the volumes that have all of the tags, by name.
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

// find reads the volume group, and returns the volume of a name in it.
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

// Extend makes a volume that size, in use or not, and its device if it is active.
// One that has it is left as it is. Without device-mapper a volume without room
// behind it is copied to where there is room, if it is not active; that is another
// volume then, of the same name. If it is, or there is none, that is ErrNotContiguous.
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

// extend returns the volume as it is if it cannot be extended.
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

// isInactive tells whether a volume has no device.
func (g *VolumeGroup) isInactive(ctx context.Context, name string) bool {
	active, err := g.Active(ctx, name)
	return err == nil && active.Device == ""
}

// Rename gives a volume another name. One that has the new name and no longer the
// old one is left as it is. It gives ErrExists if both are taken.
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

// Tag adds tags to a volume and takes others away, in one change.
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

// tag is Tag for who has the locks of the volume and of the metadata.
func (g *VolumeGroup) tag(ctx context.Context, name string, add, remove []string) error {
	_, err := g.system.lvm(ctx, append(tagging(add, remove), g.name+"/"+name)...)
	return err
}

// tagging is the command that tags volumes.
func tagging(add, remove []string) []string {
	return slices.Concat([]string{"lvchange", "-q"}, tagOptions("--addtag", add), tagOptions("--deltag", remove))
}

// Remove deactivates and removes volumes, in one change, so that nothing of their
// content can be read from the disks. Those that are not there are no error. It
// gives ErrInUse, and removes none, if any of them is in use or is the origin or
// the pool of a volume that stays, and ErrMissingDevice if the disk of one is not there.
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
				return nil // the first time did it
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

// remove is Remove for who has the locks of the volumes and of the metadata.
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

// prepareRemoval makes those of the volumes that are there ready for removal, which may
// take long, and returns them.
func (g *VolumeGroup) prepareRemoval(ctx context.Context, names []string) (report *Report, found []LogicalVolume, err error) {
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
			return nil, nil, fmt.Errorf("remove %s/%s: %w, and what is on it cannot be wiped", g.name, volume.Name, ErrMissingDevice)
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

// isPartial tells whether a volume lies on a disk that is missing.
func (v LogicalVolume) isPartial() bool {
	return v.Health == "partial" || slices.ContainsFunc(v.Extents, func(e Extent) bool { return e.PhysicalVolume == "" })
}

// needsOneOf tells whether LVM would remove a volume with one of others. A thin
// snapshot outlives its origin.
func (v LogicalVolume) needsOneOf(names []string) bool {
	return slices.Contains(names, v.Pool) || v.Layout != Thin && slices.Contains(names, v.Origin)
}

// finish wipes the ends of a new volume, where signatures of what was there
// before may be, and lets others see it.
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
