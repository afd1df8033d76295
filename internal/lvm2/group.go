package lvm2

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"golang.org/x/sync/semaphore"
)

// extentSizeDefault is LVM's own.
const extentSizeDefault = 4 << 20

// VolumeGroup is a volume group of a System. Changes to it are made one at a
// time, in the order in which they were asked for; each that ends without an
// error is on the disks.
type VolumeGroup struct {
	system   *System
	name     string
	volumes  locks               // taken before metadata
	metadata *semaphore.Weighted // taken for each change; first come, first served
	batches  batcher
	cache    reportCache
	// What may be left half done, guarded by metadata: by a process before us, and
	// by a command of ours that failed while a volume moved.
	unrecovered, moving bool
}

// GroupSpec is what a volume group is to be.
type GroupSpec struct {
	// Name is one that no other volume group of the machine has, where there is
	// device-mapper: its devices have names of the machine, whatever the System.
	Name       string
	Disks      []string // names of disks; one at least
	ExtentSize int64    // bytes, a power of two; 0 means 4 MiB
	Tags       []string
	// MetadataCopies is how many of the disks keep the metadata, each of which takes
	// time at each change; 0 is all. Without one of those no volume can be reached.
	MetadataCopies int
}

// namePattern are those that LVM takes; it has a few words more that it reserves, and says so.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9_+.][A-Za-z0-9_+.-]{0,126}$`)

// tagLengthMax is LVM's.
const tagLengthMax = 1024

// tagPattern are those that LVM takes, and that are no options.
var tagPattern = regexp.MustCompile(`^[A-Za-z0-9_+./=!:&#][A-Za-z0-9_+./=!:&#-]*$`)

func checkNames(each ...string) error {
	for _, name := range each {
		if !namePattern.MatchString(name) || name == "." || name == ".." {
			return fmt.Errorf("name %q: %w", name, ErrInvalidArgument)
		}
	}
	return nil
}

func checkTags(each []string) error {
	for _, tag := range each {
		if !tagPattern.MatchString(tag) || len(tag) > tagLengthMax {
			return fmt.Errorf("tag %q: %w", tag, ErrInvalidArgument)
		}
	}
	return nil
}

// CreateVolumeGroup makes a volume group of disks that belong to none, or returns
// the one of that name if it has all of the disks and tags; it gives ErrExists for
// another. It gives ErrNotEmpty for a disk on which LVM finds a file system or any
// other signature, and ErrInUse for one of another volume group.
func (s *System) CreateVolumeGroup(ctx context.Context, spec GroupSpec) (*VolumeGroup, error) {
	if err := errors.Join(checkNames(spec.Name), checkTags(spec.Tags)); err != nil {
		return nil, err
	}
	if spec.ExtentSize == 0 {
		spec.ExtentSize = extentSizeDefault
	}
	nodes, err := s.nodes(spec.Disks)
	if err != nil {
		return nil, err
	}
	arguments := append([]string{"vgcreate", "-q"}, s.layout...)
	arguments = append(arguments, "-s", strconv.FormatInt(spec.ExtentSize, 10)+"b")
	if spec.MetadataCopies > 0 {
		arguments = append(arguments, "--vgmetadatacopies", strconv.Itoa(spec.MetadataCopies))
	}
	arguments = append(append(arguments, tagOptions("--addtag", spec.Tags)...), spec.Name)
	_, err = s.lvm(ctx, append(arguments, nodes...)...)
	if err != nil && !errors.Is(err, ErrExists) {
		return nil, err
	}
	group, openErr := s.VolumeGroup(ctx, spec.Name)
	if openErr != nil || err == nil {
		return group, openErr
	}
	report, reportErr := group.Report(ctx)
	if reportErr != nil {
		return nil, reportErr
	}
	if !report.has(spec) {
		return nil, fmt.Errorf("volume group %s: %w", spec.Name, err)
	}
	return group, nil
}

// has tells whether a volume group has the disks and tags of a specification.
func (r *Report) has(spec GroupSpec) bool {
	for _, name := range spec.Disks {
		if _, ok := r.disk(name); !ok {
			return false
		}
	}
	return !slices.ContainsFunc(spec.Tags, func(tag string) bool { return !slices.Contains(r.Tags, tag) })
}

// VolumeGroup returns the volume group of a name, and puts right what a process
// that was killed left half done in it. It gives ErrNoGroup if none can be read,
// and ErrForeign for one that is not ours.
func (s *System) VolumeGroup(ctx context.Context, name string) (*VolumeGroup, error) {
	if err := checkNames(name); err != nil {
		return nil, err
	}
	s.mu.Lock()
	group := s.groups[name]
	if group == nil {
		group = &VolumeGroup{system: s, name: name, metadata: semaphore.NewWeighted(1), unrecovered: true}
		s.groups[name] = group
	}
	s.mu.Unlock()
	if _, err := group.Report(ctx); err != nil {
		return nil, err
	}
	return group, group.withMetadata(ctx, func() error { return nil })
}

// VolumeGroups returns the names of the System's volume groups.
func (s *System) VolumeGroups(ctx context.Context) ([]string, error) {
	output, err := s.lvm(ctx, "vgs", "--reportformat", "json", "-o", "vg_name,vg_systemid")
	if err != nil {
		return nil, err
	}
	rows, err := rowsOf(output, "vg")
	var found []string
	for _, row := range rows {
		if row["vg_systemid"] == s.systemID {
			found = append(found, row["vg_name"])
		}
	}
	return found, err
}

// nodes returns the nodes of disks by their names.
func (s *System) nodes(disks []string) ([]string, error) {
	if len(disks) == 0 {
		return nil, fmt.Errorf("no disk: %w", ErrInvalidArgument)
	}
	var nodes []string
	for _, name := range disks {
		if _, ok := s.diskByName(name); !ok {
			return nil, fmt.Errorf("disk %s: %w: it was not added", name, ErrMissingDevice)
		}
		nodes = append(nodes, s.node(name))
	}
	return nodes, nil
}

func (s *System) diskByName(name string) (Disk, bool) {
	disks := s.Disks()
	at := slices.IndexFunc(disks, func(d Disk) bool { return d.Name == name })
	if at < 0 {
		return Disk{}, false
	}
	return disks[at], true
}

// Name returns the volume group's name.
func (g *VolumeGroup) Name() string { return g.name }

// Report returns what the metadata says, which is shared by all who ask, and not to be
// changed. It waits for no change that is under way.
// It gives ErrNoGroup if the volume group cannot be read, and ErrForeign if it is
// not ours; missing disks are no error, but are told.
func (g *VolumeGroup) Report(ctx context.Context) (*Report, error) {
	report, err := g.cache.get(ctx, g.system, g.name)
	if err != nil {
		return nil, err
	}
	if report.SystemID != g.system.systemID {
		return nil, fmt.Errorf("volume group %s: %w: its system ID is %q", g.name, ErrForeign, report.SystemID)
	}
	return report, nil
}

// ExtendGroup gives the volume group disks more. Those that it has are left as they are.
func (g *VolumeGroup) ExtendGroup(ctx context.Context, disks ...string) error {
	release, err := g.lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	report, err := g.Report(ctx)
	if err != nil {
		return err
	}
	disks = slices.DeleteFunc(slices.Clone(disks), func(name string) bool { _, has := report.disk(name); return has })
	if len(disks) == 0 {
		return nil
	}
	nodes, err := g.system.nodes(disks)
	if err != nil {
		return err
	}
	_, err = g.system.lvm(ctx, slices.Concat([]string{"vgextend", "-q"}, g.system.layout, []string{g.name}, nodes)...)
	return err
}

// Check lets LVM look for contradictions in the metadata.
func (g *VolumeGroup) Check(ctx context.Context) error {
	_, err := g.system.lvm(ctx, "vgck", g.name)
	return err
}

// RemoveGroup removes a volume group without volumes, so that its disks are
// nobody's, and those that are files of ours as empty as when they were made. It gives
// ErrInUse while there are volumes.
func (g *VolumeGroup) RemoveGroup(ctx context.Context) error {
	release, err := g.lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	report, err := g.Report(ctx)
	if err != nil {
		return err
	}
	if count := len(report.LogicalVolumes); count > 0 {
		return fmt.Errorf("volume group %s: %w: it has %d volumes", g.name, ErrInUse, count)
	}
	if _, err := g.system.lvm(ctx, "vgremove", "-q", g.name); err != nil {
		return err
	}
	arguments := []string{"pvremove", "-q"}
	for _, each := range report.PhysicalVolumes {
		if each.Name != "" && !g.system.discardAll(each.Name) {
			arguments = append(arguments, g.system.node(each.Name))
		}
	}
	if len(arguments) == 2 {
		return nil
	}
	_, err = g.system.lvm(ctx, arguments...)
	return err
}

// lock takes the locks of volumes, and then that of the metadata.
func (g *VolumeGroup) lock(ctx context.Context, volumes ...string) (release func(), err error) {
	leave, err := g.volumes.acquire(ctx, volumes...)
	if err != nil {
		return nil, err
	}
	if err := g.lockMetadata(ctx); err != nil {
		leave()
		return nil, err
	}
	return func() {
		g.metadata.Release(1)
		leave()
	}, nil
}

// withMetadata runs f while no other change is made to the metadata.
func (g *VolumeGroup) withMetadata(ctx context.Context, f func() error) error {
	if err := g.lockMetadata(ctx); err != nil {
		return err
	}
	defer g.metadata.Release(1)
	return f()
}

// lockMetadata takes the lock of the metadata, and puts right what is half done.
func (g *VolumeGroup) lockMetadata(ctx context.Context) error {
	if err := g.metadata.Acquire(ctx, 1); err != nil {
		return err
	}
	var err error
	if g.unrecovered || g.moving {
		err = g.recover(ctx)
	}
	if err != nil {
		g.metadata.Release(1)
	}
	return err
}

// tagOptions is an option with each of the tags.
func tagOptions(option string, tags []string) []string {
	var arguments []string
	for _, tag := range tags {
		arguments = append(arguments, option, tag)
	}
	return arguments
}
