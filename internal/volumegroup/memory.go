package volumegroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/volsim/volsim/plugins/nodefs"
)

// metadataBytes are not available for volumes on each disk.
const metadataBytes = 1 << 20

// Memory keeps volume groups in memory. It represents the disks, not a process: it survives the
// crash of its callers and, with Activate, reboots.
type Memory struct {
	disk *nodefs.Memory
	root string

	mu     sync.Mutex
	groups map[string]*memoryGroup // guarded by mu; by class
}

// memoryGroup is a volume group.
type memoryGroup struct {
	disks   []memoryDisk
	volumes map[string]*memoryVolume
}

type memoryDisk struct {
	path, device string
	extents      int64
}

type memoryVolume struct {
	Volume
	runs []int64 // extents on each disk of the group
}

var _ Backend = (*Memory)(nil)

// NewMemory returns the groups of a node without any. root is the directory of disk that represents
// the root of the node.
func NewMemory(disk *nodefs.Memory, root string) *Memory {
	return &Memory{disk: disk, root: root, groups: map[string]*memoryGroup{}}
}

// Activate implements Backend.
func (m *Memory) Activate(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var failed []error
	for _, class := range slices.Sorted(maps.Keys(m.groups)) {
		failed = append(failed, m.activate(m.groups[class]))
	}
	return errors.Join(failed...)
}

// Ensure implements Backend.
func (m *Memory) Ensure(_ context.Context, class string, disks []string) (Report, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.groups[class]
	var listed []Disk
	changed := false
	for _, name := range disks {
		if g != nil && g.indexOf(name) >= 0 {
			listed = append(listed, m.stateOf(g.disks[g.indexOf(name)]))
			continue
		}
		device, found := m.probe(name)
		if found.State == InUse && g != nil && m.isLost(g) {
			found = Disk{Path: name, State: Refused, Message: "not added: " + ErrLost.Error()}
		}
		listed = append(listed, found)
		if found.State != InUse {
			continue
		}
		if g == nil {
			g = &memoryGroup{volumes: map[string]*memoryVolume{}}
			m.groups[class] = g
		}
		g.disks = append(g.disks, memoryDisk{name, device, found.Size / ExtentSize})
		changed = true
	}
	if g == nil {
		return Report{Disks: listed}, nil
	}
	for _, disk := range g.disks {
		if !slices.Contains(disks, disk.path) {
			listed = append(listed, m.stateOf(disk))
		}
	}
	r := m.report(class, g, listed)
	r.Changed = changed
	return r, m.activate(g)
}

// report describes a group.
func (m *Memory) report(class string, g *memoryGroup, disks []Disk) Report {
	r := Report{Group: class, Disks: disks}
	for i, free := range g.free() {
		r.Size += g.disks[i].extents * ExtentSize
		r.Free += free * ExtentSize
	}
	if r.Largest = r.Free; m.isLost(g) {
		r.Largest = 0
	}
	for _, name := range slices.Sorted(maps.Keys(g.volumes)) {
		volume := g.volumes[name]
		volume.Lost = m.volumeLost(g, volume)
		r.Volumes = append(r.Volumes, volume.Volume)
	}
	return r
}

// free returns the free extents of each disk.
func (g *memoryGroup) free() []int64 {
	free := make([]int64, len(g.disks))
	for i, disk := range g.disks {
		free[i] = disk.extents
	}
	for _, volume := range g.volumes {
		for i, run := range volume.runs {
			free[i] -= run
		}
	}
	return free
}

func (g *memoryGroup) indexOf(disk string) int {
	return slices.IndexFunc(g.disks, func(d memoryDisk) bool { return d.path == disk })
}

// stateOf returns the state of a disk of a group.
func (m *Memory) stateOf(disk memoryDisk) Disk {
	is := Disk{Path: disk.path, Size: disk.extents * ExtentSize, State: InUse}
	info, err := m.disk.Stat(m.at(disk.path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		is.State, is.Message = Lost, "does not exist"
	case err != nil:
		is.State, is.Message = Lost, err.Error()
	case info.Device != disk.device:
		is.State, is.Message = Lost, "is another disk"
	}
	return is
}

func (m *Memory) isLost(g *memoryGroup) bool {
	return slices.ContainsFunc(g.disks, func(d memoryDisk) bool { return m.stateOf(d).State == Lost })
}

func (m *Memory) volumeLost(g *memoryGroup, volume *memoryVolume) bool {
	for i, run := range volume.runs {
		if run > 0 && m.stateOf(g.disks[i]).State == Lost {
			return true
		}
	}
	return false
}

// probe returns whether a disk is free, and its device.
func (m *Memory) probe(name string) (device string, found Disk) {
	refused := func(format string, args ...any) (string, Disk) {
		return "", Disk{Path: name, State: Refused, Message: fmt.Sprintf(format, args...)}
	}
	info, err := m.disk.Stat(m.at(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", Disk{Path: name, State: Missing, Message: "does not exist"}
	case err != nil:
		return refused("%v", err)
	case info.Device == "":
		return refused("is not a block device")
	}
	for _, class := range slices.Sorted(maps.Keys(m.groups)) {
		for _, disk := range m.groups[class].disks {
			if disk.device == info.Device {
				return refused("belongs to volume group %s as %s", class, disk.path)
			}
		}
	}
	mounts, err := m.disk.Mounts()
	if err != nil {
		return refused("%v", err)
	}
	for _, mount := range mounts {
		if kind, _ := m.disk.Stat(mount.Path); (mount.Source == info.Device || mount.Source == m.at(name)) && kind.Device == "" {
			return refused("is mounted at %s", strings.TrimPrefix(mount.Path, m.root))
		}
	}
	if fsType, err := m.disk.FileSystem(m.at(name)); err != nil || fsType != "" {
		return refused("has a file system: %s", fsType)
	}
	size, err := m.disk.Capacity(m.at(name))
	if err != nil {
		return refused("%v", err)
	}
	usable := (size - metadataBytes) / ExtentSize * ExtentSize
	if usable < ExtentSize {
		return refused("is too small: %s", quantity(size))
	}
	return info.Device, Disk{Path: name, Size: usable, State: InUse}
}

// Create implements Backend.
func (m *Memory) Create(_ context.Context, class string, spec Spec) (Volume, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.groups[class]
	if g == nil {
		return Volume{}, fmt.Errorf("class %s: %w", class, ErrNoGroup)
	}
	if existing := g.volumes[spec.Name]; existing != nil && existing.Size >= spec.Size {
		return existing.Volume, m.activate(g)
	} else if existing != nil {
		return Volume{}, fmt.Errorf("volume %s: exists with %s", spec.Name, quantity(existing.Size))
	}
	if m.isLost(g) {
		return Volume{}, ErrLost
	}
	v := &memoryVolume{Volume: Volume{Name: spec.Name, Path: devicePath(class, spec.Name), Owner: spec.Owner, Unfinished: true}}
	if err := g.allocate(v, extents(spec.Size)); err != nil {
		return Volume{}, err
	}
	g.volumes[spec.Name] = v
	m.disk.SetDeviceSize(v.device(), v.Size)
	return v.Volume, m.activate(g)
}

// allocate gives a volume further extents, from the first disks that have any.
func (g *memoryGroup) allocate(v *memoryVolume, want int64) error {
	free := g.free()
	sum := int64(0)
	for _, each := range free {
		sum += each
	}
	if sum < want {
		return fmt.Errorf("%w: %s free, %s needed", ErrNoSpace, quantity(sum*ExtentSize), quantity(want*ExtentSize))
	}
	v.Size += want * ExtentSize
	v.runs = append(v.runs, make([]int64, len(free)-len(v.runs))...)
	for i, each := range free {
		taken := min(each, want)
		v.runs[i] += taken
		want -= taken
	}
	return nil
}

// Finish implements Backend.
func (m *Memory) Finish(_ context.Context, class, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, v, err := m.find(class, name)
	if err != nil {
		return err
	}
	v.Unfinished = false
	return nil
}

// find returns a volume. The caller holds m.mu.
func (m *Memory) find(class, name string) (*memoryGroup, *memoryVolume, error) {
	g := m.groups[class]
	if g == nil {
		return nil, nil, fmt.Errorf("class %s: %w", class, ErrNoGroup)
	}
	v := g.volumes[name]
	if v == nil {
		return nil, nil, fmt.Errorf("volume %s: %w", name, fs.ErrNotExist)
	}
	return g, v, nil
}

// Extend implements Backend.
func (m *Memory) Extend(_ context.Context, class, name string, size int64) (Volume, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	g, v, err := m.find(class, name)
	switch {
	case err != nil:
		return Volume{}, err
	case v.Size >= size:
		return v.Volume, nil
	case m.isLost(g):
		return Volume{}, ErrLost
	}
	if err := g.allocate(v, extents(size-v.Size)); err != nil {
		return Volume{}, err
	}
	m.disk.SetDeviceSize(v.device(), v.Size)
	return v.Volume, nil
}

// Remove implements Backend.
func (m *Memory) Remove(ctx context.Context, class, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	g, v, err := m.find(class, name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrNoGroup) {
		return nil
	} else if err != nil {
		return err
	}
	at := m.at(v.Path)
	if there, err := m.disk.Exists(at); err != nil {
		return err
	} else if there {
		if err := m.disk.Wipe(ctx, at); errors.Is(err, nodefs.ErrBusy) {
			return fmt.Errorf("volume %s: %w", name, ErrInUse)
		} else if err != nil {
			return err
		}
		if err := errors.Join(m.disk.Unmount(at), m.disk.Remove(at)); err != nil {
			return err
		}
	}
	delete(g.volumes, name)
	return nil
}

// Destroy implements Backend.
func (m *Memory) Destroy(_ context.Context, class string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.groups[class]
	if g == nil {
		return nil
	}
	if len(g.volumes) > 0 {
		return fmt.Errorf("volume group %s: %d volumes: %w", class, len(g.volumes), ErrInUse)
	}
	delete(m.groups, class)
	return nil
}

// activate makes the devices of a group's volumes visible. Those on a lost disk are not.
func (m *Memory) activate(g *memoryGroup) error {
	for _, name := range slices.Sorted(maps.Keys(g.volumes)) {
		v := g.volumes[name]
		at := m.at(v.Path)
		if info, err := m.disk.Stat(at); err == nil && info.Device == v.device() || m.volumeLost(g, v) {
			continue
		}
		if err := errors.Join(m.disk.MkdirAll(path.Dir(at)), m.disk.WriteFile(at, nil)); err != nil {
			return err
		}
		if err := m.disk.MountDevice(v.device(), at, false); err != nil {
			return err
		}
	}
	return nil
}

// device returns the identity of a volume's device.
func (v *memoryVolume) device() string { return "volume " + v.Path }

func (m *Memory) at(name string) string { return path.Join(m.root, name) }

// devicePath returns where a node has the device of a volume.
func devicePath(class, name string) string { return path.Join("/dev", class, name) }
