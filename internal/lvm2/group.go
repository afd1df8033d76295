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

// extentSizeDefault is LVM's default.
const extentSizeDefault = 4 << 20

// VolumeGroup is a volume group of a System. Changes are serialized in the order of the calls. A
// change that returns no error is on the disks.
type VolumeGroup struct {
	system   *System
	name     string
	volumes  locks               // locked before metadata
	metadata *semaphore.Weighted // held by each change; first come, first served
	batches  batcher
	cache    reportCache
	// Incomplete changes, guarded by metadata: unrecovered ones of an earlier process, and moves
	// that a failed command left.
	unrecovered, moving bool
}

// GroupSpec describes a volume group.
type GroupSpec struct {
	// Name must be unique on the machine if there is device-mapper, because its devices share one
	// namespace.
	Name       string
	Disks      []string // names of disks; at least one
	ExtentSize int64    // in bytes, a power of two; 0 means 4 MiB
	Tags       []string
	// MetadataCopies is the number of disks that keep the metadata; 0 means all. Each copy slows
	// down every change. Without at least one of these disks no volume is accessible.
	MetadataCopies int
}

// namePattern matches the names that LVM accepts. LVM itself rejects some reserved names.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9_+.][A-Za-z0-9_+.-]{0,126}$`)

// tagLengthMax is LVM's limit.
const tagLengthMax = 1024

// tagPattern matches the tags that LVM accepts and that are not options.
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

// CreateVolumeGroup creates a volume group from disks that belong to none. If one of that name
// exists and has all of the disks and tags, it returns that one; otherwise it returns ErrExists. It
// returns ErrNotEmpty for a disk with a file system or another signature, and ErrInUse for a disk
// of another volume group. CheckEmpty finds other data.
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

// has reports whether a volume group has the disks and tags of a specification.
func (r *Report) has(spec GroupSpec) bool {
	for _, name := range spec.Disks {
		if _, ok := r.disk(name); !ok {
			return false
		}
	}
	return !slices.ContainsFunc(spec.Tags, func(tag string) bool { return !slices.Contains(r.Tags, tag) })
}

// VolumeGroup returns the volume group of a name, after recovering from a killed process. It
// returns ErrNoGroup if none can be read, and ErrForeign for one of another LVM.
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

// nodes returns the device nodes of disks by name.
func (s *System) nodes(disks []string) ([]string, error) {
	if len(disks) == 0 {
		return nil, fmt.Errorf("no disk: %w", ErrInvalidArgument)
	}
	var nodes []string
	for _, name := range disks {
		if _, ok := s.diskByName(name); !ok {
			return nil, fmt.Errorf("disk %s: %w: not added", name, ErrMissingDevice)
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

// Report returns the content of the metadata. It is shared by all callers, which must not change
// it. Report does not wait for a change in progress. It returns ErrNoGroup if the volume group
// cannot be read, and ErrForeign if it belongs to another LVM. Missing disks are not an error; the
// report lists them.
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

// ExtendGroup adds disks to the volume group. Disks that it already has are left unchanged.
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

// Check runs LVM's consistency check of the metadata.
func (g *VolumeGroup) Check(ctx context.Context) error {
	_, err := g.system.lvm(ctx, "vgck", g.name)
	return err
}

// RemoveGroup removes a volume group without volumes. Its disks then belong to no volume group, and
// disks that are files of ours are empty again. RemoveGroup returns ErrInUse while there are
// volumes.
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
		return fmt.Errorf("volume group %s: %w: %d volumes exist", g.name, ErrInUse, count)
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

// lock locks volumes, and then the metadata.
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

// withMetadata runs f while it holds the lock of the metadata.
func (g *VolumeGroup) withMetadata(ctx context.Context, f func() error) error {
	if err := g.lockMetadata(ctx); err != nil {
		return err
	}
	defer g.metadata.Release(1)
	return f()
}

// lockMetadata locks the metadata and completes interrupted changes.
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

// tagOptions returns an option for each of the tags.
func tagOptions(option string, tags []string) []string {
	var arguments []string
	for _, tag := range tags {
		arguments = append(arguments, option, tag)
	}
	return arguments
}
