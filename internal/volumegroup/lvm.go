package volumegroup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/volsim/volsim/internal/blockdev"
	"github.com/volsim/volsim/internal/lvm2"
	"github.com/volsim/volsim/plugins/nodefs"
)

// LVMConfig configures OpenLVM.
type LVMConfig struct {
	LVM    lvm2.Config // of the private LVM of the node
	Prefix string      // of the names of groups, which must be unique on the machine
	Disk   *nodefs.Real
	Root   string // the directory of Disk that represents the root of the node
}

// LVM keeps volume groups of real LVM. The disks are device nodes below the root of the node.
type LVM struct {
	cfg    LVMConfig
	system *lvm2.System

	mu    sync.Mutex
	disks map[string]string // names of added disks by path; guarded by mu
	paths map[string]string // paths of the disks of groups by UUID; guarded by mu
}

var _ Backend = (*LVM)(nil)

// The tags of volumes.
const (
	ownerTag      = "volsim.owner="
	unfinishedTag = "volsim.unsaved"
)

// OpenLVM opens the private LVM of a node. Call Close.
func OpenLVM(cfg LVMConfig) (*LVM, error) {
	system, err := lvm2.Open(cfg.LVM)
	if err != nil {
		return nil, err
	}
	return &LVM{cfg: cfg, system: system, disks: map[string]string{}, paths: map[string]string{}}, nil
}

// Close deactivates all volumes and releases the disks, whose content stays. Nothing is mounted any
// more.
func (l *LVM) Close(ctx context.Context) error {
	return errors.Join(l.system.Detach(ctx), l.system.Close())
}

// errorOf returns an error of LVM as one of this package.
func errorOf(err error) error {
	for _, each := range []struct{ from, to error }{
		{lvm2.ErrNoSpace, ErrNoSpace},
		{lvm2.ErrNotContiguous, ErrNoSpace},
		{lvm2.ErrNoGroup, ErrNoGroup},
		{lvm2.ErrMissingDevice, ErrLost},
		{lvm2.ErrInUse, ErrInUse},
		{lvm2.ErrNotFound, fs.ErrNotExist},
	} {
		if errors.Is(err, each.from) {
			return fmt.Errorf("%w: %w", each.to, err)
		}
	}
	return err
}

// group returns the group of a class.
func (l *LVM) group(ctx context.Context, class string) (*lvm2.VolumeGroup, error) {
	g, err := l.system.VolumeGroup(ctx, l.cfg.Prefix+class)
	if err != nil {
		return nil, errorOf(err)
	}
	return g, nil
}

// Ensure implements Backend.
func (l *LVM) Ensure(ctx context.Context, class string, disks []string) (Report, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g, err := l.group(ctx, class)
	if err != nil && !errors.Is(err, ErrNoGroup) {
		return Report{}, err
	}
	changed := false
	refused := map[string]Disk{}
	for _, name := range disks {
		added, err := l.ensureDisk(ctx, class, &g, name)
		if err != nil {
			return Report{}, err
		}
		changed = changed || added.State == InUse
		if added.State == Missing || added.State == Refused {
			refused[name] = added
		}
	}
	if g == nil {
		r := Report{}
		for _, name := range disks {
			r.Disks = append(r.Disks, refused[name])
		}
		return r, nil
	}
	r, err := l.report(ctx, g, class, disks, refused)
	r.Changed = changed
	return r, errors.Join(err, l.activate(ctx, g, class))
}

// ensureDisk makes a disk part of a group. It returns InUse if it was added now, nothing if it is part
// already, and otherwise what was found.
func (l *LVM) ensureDisk(ctx context.Context, class string, g **lvm2.VolumeGroup, name string) (Disk, error) {
	device, found := l.probe(name)
	if found.State != "" {
		return found, nil
	}
	refused := func(err error) (Disk, error) {
		return Disk{Path: name, State: Refused, Message: l.refusal(err)}, nil
	}
	disk, err := l.system.AddDevice(ctx, device)
	if err != nil {
		return refused(err)
	}
	if other := l.otherPath(disk.Name, name); other != "" {
		return Disk{Path: name, State: Refused, Message: "is the same disk as " + other}, nil
	}
	if *g != nil {
		report, err := (*g).Report(ctx)
		if err != nil {
			return Disk{}, errorOf(err)
		}
		at := slices.IndexFunc(report.PhysicalVolumes, func(p lvm2.PhysicalVolume) bool { return p.Name == disk.Name })
		if at >= 0 {
			l.disks[name], l.paths[report.PhysicalVolumes[at].UUID] = disk.Name, name
			return Disk{}, nil
		}
	}
	if err := l.takeDisk(ctx, class, g, disk.Name); err != nil {
		_ = l.system.RemoveDisk(ctx, disk.Name) // it may be part of another group
		return refused(err)
	}
	l.disks[name] = disk.Name
	return Disk{State: InUse}, nil
}

// takeDisk extends a group by a disk, or creates it with the disk. The disk must be empty.
func (l *LVM) takeDisk(ctx context.Context, class string, g **lvm2.VolumeGroup, disk string) error {
	if err := l.system.CheckEmpty(ctx, disk); err != nil {
		return err
	}
	if *g != nil {
		return (*g).ExtendGroup(ctx, disk)
	}
	created, err := l.system.CreateVolumeGroup(ctx, lvm2.GroupSpec{Name: l.cfg.Prefix + class, Disks: []string{disk}})
	if err == nil {
		*g = created
	}
	return err
}

// probe returns the device of a disk on this machine, or what was found instead.
func (l *LVM) probe(name string) (device string, found Disk) {
	info, err := l.cfg.Disk.Stat(l.at(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", Disk{Path: name, State: Missing, Message: "does not exist"}
	case err != nil:
		return "", Disk{Path: name, State: Refused, Message: err.Error()}
	case info.Device == "" || info.Mode.Type() != fs.ModeDevice:
		return "", Disk{Path: name, State: Refused, Message: "is not a block device"}
	}
	number, err := blockdev.NumberOf(l.at(name))
	if err == nil {
		device, err = number.SysfsDirectory()
	}
	if err != nil {
		return "", Disk{Path: name, State: Refused, Message: err.Error()}
	}
	device = filepath.Join("/dev", filepath.Base(device))
	if places, err := blockdev.MountPoints(device); err == nil && len(places) > 0 {
		at := strings.TrimPrefix(places[0], filepath.Clean(l.cfg.Root))
		return "", Disk{Path: name, State: Refused, Message: "is mounted at " + at}
	}
	return device, Disk{}
}

// report describes a group.
func (l *LVM) report(ctx context.Context, g *lvm2.VolumeGroup, class string, disks []string, refused map[string]Disk) (Report, error) {
	from, err := g.Report(ctx)
	if err != nil {
		return Report{}, errorOf(err)
	}
	r := Report{Group: from.Name, Size: from.Size, Free: from.Free, Largest: from.Free}
	if !g.Capabilities().NonContiguous {
		r.Largest = from.LargestContiguous()
	}
	lost := map[string]bool{}
	byPath := map[string]Disk{}
	for _, p := range from.PhysicalVolumes {
		disk := l.diskOf(&p)
		if disk.State == Lost {
			r.Largest, lost[p.Name] = 0, true
		}
		byPath[disk.Path] = disk
		if !slices.Contains(disks, disk.Path) {
			r.Disks = append(r.Disks, disk)
		}
	}
	var listed []Disk
	for _, name := range disks {
		if disk, part := byPath[name]; part {
			listed = append(listed, disk)
		} else {
			listed = append(listed, refused[name])
		}
	}
	r.Disks = append(listed, r.Disks...)
	for _, v := range from.LogicalVolumes {
		if volume, ours := volumeOf(class, v); ours {
			volume.Lost = slices.ContainsFunc(v.Extents, func(e lvm2.Extent) bool { return lost[e.PhysicalVolume] })
			r.Volumes = append(r.Volumes, volume)
		}
	}
	slices.SortFunc(r.Volumes, func(a, b Volume) int { return strings.Compare(a.Name, b.Name) })
	return r, nil
}

// diskOf describes the disk of a physical volume, under the path that it has or had.
func (l *LVM) diskOf(p *lvm2.PhysicalVolume) Disk {
	disk := Disk{Path: cmp.Or(l.paths[p.UUID], p.UUID), Size: p.Size, State: InUse}
	if p.Missing {
		disk.State, disk.Message = Lost, "does not exist"
		return disk
	}
	for path, device := range l.disks {
		if device == p.Name {
			disk.Path = path
		}
	}
	l.paths[p.UUID] = disk.Path
	return disk
}

// volumeOf describes a volume. It reports false for one that is not of this package.
func volumeOf(class string, v lvm2.LogicalVolume) (Volume, bool) {
	for _, tag := range v.Tags {
		if owner, ok := strings.CutPrefix(tag, ownerTag); ok {
			return Volume{
				Name: v.Name, Size: v.Size, Path: devicePath(class, v.Name), Owner: owner, Unfinished: v.HasTags(unfinishedTag),
			}, true
		}
	}
	return Volume{}, false
}

// Create implements Backend.
func (l *LVM) Create(ctx context.Context, class string, spec Spec) (Volume, error) {
	g, err := l.group(ctx, class)
	if err != nil {
		return Volume{}, err
	}
	lv, err := g.Find(ctx, spec.Name)
	switch {
	case errors.Is(err, lvm2.ErrNotFound):
		lv, err = g.Create(ctx, lvm2.Spec{Name: spec.Name, Size: spec.Size, Tags: []string{ownerTag + spec.Owner, unfinishedTag}})
	case err == nil && lv.Size < spec.Size:
		return Volume{}, fmt.Errorf("volume %s: exists with %s", spec.Name, quantity(lv.Size))
	}
	if err == nil {
		err = l.show(ctx, g, class, lv.Name)
	}
	if err != nil {
		return Volume{}, errorOf(err)
	}
	v, _ := volumeOf(class, lv)
	return v, nil
}

// show activates a volume and makes its device visible on the node.
func (l *LVM) show(ctx context.Context, g *lvm2.VolumeGroup, class, name string) error {
	device, err := g.Activate(ctx, name)
	if err != nil {
		return err
	}
	at := l.at(devicePath(class, name))
	want, err := l.cfg.Disk.DeviceOf(device)
	if err != nil {
		return err
	}
	if info, err := l.cfg.Disk.Stat(at); err == nil && info.Device == want {
		return nil
	} else if err == nil && info.Device != "" {
		if err := l.cfg.Disk.Unmount(at); err != nil {
			return err
		}
	}
	if err := errors.Join(l.cfg.Disk.MkdirAll(path.Dir(at)), l.cfg.Disk.WriteFile(at, nil)); err != nil {
		return err
	}
	return l.cfg.Disk.BindDevice(device, at, false)
}

// activate shows all volumes of a group whose disks exist.
func (l *LVM) activate(ctx context.Context, g *lvm2.VolumeGroup, class string) error {
	all, err := g.List(ctx)
	if err != nil {
		return errorOf(err)
	}
	for _, v := range all {
		if _, ours := volumeOf(class, v); !ours {
			continue
		}
		if err := l.show(ctx, g, class, v.Name); err != nil && !errors.Is(err, lvm2.ErrMissingDevice) {
			return errorOf(err)
		}
	}
	return nil
}

// Finish implements Backend.
func (l *LVM) Finish(ctx context.Context, class, name string) error {
	g, err := l.group(ctx, class)
	if err != nil {
		return err
	}
	return errorOf(g.Tag(ctx, name, nil, []string{unfinishedTag}))
}

// Extend implements Backend.
func (l *LVM) Extend(ctx context.Context, class, name string, size int64) (Volume, error) {
	g, err := l.group(ctx, class)
	if err != nil {
		return Volume{}, err
	}
	lv, err := g.Extend(ctx, name, size)
	if err != nil {
		return Volume{}, errorOf(err)
	}
	v, _ := volumeOf(class, lv)
	return v, nil
}

// Remove implements Backend.
func (l *LVM) Remove(ctx context.Context, class, name string) error {
	g, err := l.group(ctx, class)
	if errors.Is(err, ErrNoGroup) {
		return nil
	} else if err != nil {
		return err
	}
	active, err := g.Active(ctx, name)
	switch {
	case errors.Is(err, lvm2.ErrNotFound):
	case err != nil:
		return errorOf(err)
	case active.InUse:
		return fmt.Errorf("volume %s: %w", name, ErrInUse)
	}
	at := l.at(devicePath(class, name))
	if mounted, err := l.cfg.Disk.IsMountPoint(at); err == nil && mounted {
		if err := l.cfg.Disk.Unmount(at); err != nil {
			return err
		}
	}
	if err := l.cfg.Disk.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return errorOf(g.Remove(ctx, name))
}

// Activate implements Backend.
func (l *LVM) Activate(ctx context.Context) error {
	groups, err := l.system.VolumeGroups(ctx)
	for _, name := range groups {
		class, ours := strings.CutPrefix(name, l.cfg.Prefix)
		if !ours {
			continue
		}
		g, failed := l.group(ctx, class)
		if failed == nil {
			failed = l.activate(ctx, g, class)
		}
		err = errors.Join(err, failed)
	}
	return err
}

// Destroy implements Backend. The disks are released.
func (l *LVM) Destroy(ctx context.Context, class string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	g, err := l.group(ctx, class)
	if errors.Is(err, ErrNoGroup) {
		return nil
	} else if err != nil {
		return err
	}
	from, err := g.Report(ctx)
	if err != nil {
		return errorOf(err)
	}
	if err := g.RemoveGroup(ctx); err != nil {
		return errorOf(err)
	}
	for _, p := range from.PhysicalVolumes {
		for name, disk := range l.disks {
			if disk == p.Name {
				delete(l.disks, name)
				err = errors.Join(err, l.system.RemoveDisk(ctx, disk))
			}
		}
		delete(l.paths, p.UUID)
	}
	return err
}

func (l *LVM) at(name string) string { return path.Join(l.cfg.Root, name) }
