package lvm2

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/volsim/volsim/internal/loopdev"
)

// DiskMark is the mark of the loop devices that a System binds over its disks.
const DiskMark = "volsim:lvm2"

// Disk is a disk of a System. It becomes a physical volume when a volume group takes it.
type Disk struct {
	Name   string // such as "pv0"; valid while the System is open
	Path   string // the given file or block device
	Device string // the block device: Path itself, or a loop device over it
	// Zeroed means that free space on the disk reads as zeros, because the disk is a file of ours.
	Zeroed bool
}

// AddFile adds a file as a disk. A missing file is created, sparse and of that many bytes; an
// existing one keeps its size. Adding a file again rebinds its loop device if it was lost. AddFile
// returns ErrNotEmpty for a file with content other than a physical volume of ours, and ErrForeign
// for a physical volume of another LVM.
func (s *System) AddFile(ctx context.Context, path string, size int64) (Disk, error) {
	path, err := filepath.Abs(path)
	if err == nil {
		path, err = realPath(path)
	}
	if err != nil {
		return Disk{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.indexOf(path); at >= 0 {
		err := s.bindAgain(ctx, &s.disks[at])
		return s.disks[at], err
	}
	empty, err := ensureFile(path, size)
	if err != nil {
		return Disk{}, err
	}
	return s.addBound(ctx, Disk{Path: path, Zeroed: true}, empty)
}

// AddDevice adds a block device of this machine as a disk. It must be unused or have a physical
// volume of ours. AddDevice returns ErrInUse for a device in use, ErrForeign for a physical volume
// of another LVM and ErrDuplicateDevice for a second path to a disk that was added. Only a volume
// group that takes the disk checks whether it is empty.
func (s *System) AddDevice(ctx context.Context, path string) (Disk, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return Disk{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.indexOf(path); at >= 0 {
		return s.disks[at], nil
	}
	disk := Disk{Path: path, Device: path}
	if s.mode == DeviceMapper {
		return s.add(ctx, disk, true)
	}
	if err := notInUse(path); err != nil {
		return Disk{}, fmt.Errorf("disk %s: %w", path, err)
	}
	return s.addBound(ctx, disk, true)
}

// addBound adds a disk through a loop device. A refused disk keeps a loop device that it had
// before, which may belong to another System.
func (s *System) addBound(ctx context.Context, disk Disk, empty bool) (Disk, error) {
	before, err := boundDisk(disk.Path)
	if err != nil {
		return Disk{}, err
	}
	if disk.Device, err = bindDisk(ctx, disk.Path); err != nil {
		return Disk{}, err
	}
	added, err := s.add(ctx, disk, empty)
	if err != nil && len(before) == 0 {
		err = errors.Join(err, unbindDisk(context.WithoutCancel(ctx), disk.Path))
	}
	if err != nil {
		return Disk{}, err
	}
	if len(before) == 0 {
		s.bound[disk.Path] = true
	}
	return added, nil
}

// Disks returns the disks in the order in which they were added.
func (s *System) Disks() []Disk {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.disks)
}

// RemoveDisk removes a disk by name, and its loop device if it has one. The file stays. RemoveDisk
// returns ErrInUse while a volume on the disk is active or a volume group includes the disk. Use
// Detach for the latter.
func (s *System) RemoveDisk(ctx context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.IndexFunc(s.disks, func(d Disk) bool { return d.Name == name })
	if at < 0 {
		return nil
	}
	owner, err := s.groupOf(ctx, s.disks[at])
	if err != nil {
		return err
	}
	if owner != "" {
		return fmt.Errorf("disk %s: %w: it belongs to volume group %s", s.disks[at].Path, ErrInUse, owner)
	}
	return s.detachDisk(ctx, at)
}

// Detach removes all disks, as if the machine were switched off. Their volume groups stay, and
// exist again when the disks are added. Detach returns ErrInUse if a volume is in use. Disks
// detached before that stay detached.
func (s *System) Detach(ctx context.Context) error {
	groups, err := s.VolumeGroups(ctx)
	if err != nil {
		return err
	}
	for _, name := range groups {
		group, err := s.VolumeGroup(ctx, name)
		if err != nil {
			return err
		}
		if err := group.deactivateAll(ctx); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.disks) > 0 {
		if err := s.detachDisk(ctx, len(s.disks)-1); err != nil {
			return err
		}
	}
	return nil
}

// detachDisk removes the disk at an index.
func (s *System) detachDisk(ctx context.Context, at int) error {
	disk := s.disks[at]
	if disk.Device != disk.Path {
		if err := unbindDisk(ctx, disk.Path); err != nil {
			return fmt.Errorf("disk %s: %w", disk.Path, err)
		}
	}
	if err := os.Remove(s.node(disk.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.disks = slices.Delete(s.disks, at, at+1)
	return nil
}

// indexOf returns the index of the disk with a path, or -1.
func (s *System) indexOf(path string) int {
	return slices.IndexFunc(s.disks, func(d Disk) bool { return d.Path == path })
}

// bindAgain rebinds a disk that lost its loop device.
func (s *System) bindAgain(ctx context.Context, disk *Disk) error {
	device, err := bindDisk(ctx, disk.Path)
	if err != nil || device == disk.Device {
		return err
	}
	disk.Device = device
	return makeNode(s.node(disk.Name), device)
}

// add creates a disk's device node and checks its owner. A disk that is no physical volume must be
// empty.
func (s *System) add(ctx context.Context, disk Disk, empty bool) (Disk, error) {
	disk.Name = s.freeName()
	node := s.node(disk.Name)
	if err := makeNode(node, disk.Device); err != nil {
		return Disk{}, err
	}
	err := s.check(ctx, disk, empty)
	if err != nil {
		return Disk{}, errors.Join(fmt.Errorf("disk %s: %w", disk.Path, err), os.Remove(node))
	}
	s.disks = append(s.disks, disk)
	return disk, nil
}

// check returns an error for a disk that must not be used.
func (s *System) check(ctx context.Context, disk Disk, empty bool) error {
	ours, err := s.checkOwner(ctx, disk)
	if err != nil || ours {
		return err
	}
	if !empty {
		return fmt.Errorf("%w: not a physical volume", ErrNotEmpty)
	}
	return notInUse(s.node(disk.Name))
}

// checkOwner reports whether a disk is a physical volume. It returns ErrForeign for one in a volume
// group of another LVM, and ErrDuplicateDevice for one that another disk also claims to be. A
// physical volume without a volume group has no owner.
func (s *System) checkOwner(ctx context.Context, disk Disk) (bool, error) {
	output, err := s.lvm(ctx, "pvs", "--reportformat", "json", "-o", "pv_name,vg_name,vg_systemid,pv_duplicate",
		"--foreign", s.node(disk.Name))
	if err != nil {
		var refused *CommandError
		if errors.As(err, &refused) && strings.Contains(refused.Text, "Failed to find physical volume") {
			return false, nil
		}
		return false, err
	}
	rows, err := rowsOf(output, "pv")
	if err != nil {
		return false, err
	}
	for _, row := range rows {
		if row["pv_duplicate"] != "" {
			return false, fmt.Errorf("%w: physical volume of volume group %s", ErrDuplicateDevice, row["vg_name"])
		}
		if row["vg_name"] != "" && row["vg_systemid"] != s.systemID {
			return false, fmt.Errorf("%w: volume group %s, system ID %q", ErrForeign, row["vg_name"],
				row["vg_systemid"])
		}
	}
	return len(rows) > 0, nil
}

// groupOf returns the volume group that includes a disk, or "".
func (s *System) groupOf(ctx context.Context, disk Disk) (string, error) {
	output, err := s.lvm(ctx, "pvs", "-a", "--reportformat", "json", "-o", "pv_name,vg_name", s.node(disk.Name))
	if err != nil {
		var refused *CommandError
		if errors.As(err, &refused) && strings.Contains(refused.Text, "Failed to find") {
			return "", nil
		}
		return "", err
	}
	rows, err := rowsOf(output, "pv")
	if err != nil || len(rows) == 0 {
		return "", err
	}
	return rows[0]["vg_name"], nil
}

// freeName returns the first unused disk name.
func (s *System) freeName() string {
	for i := 0; ; i++ {
		name := "pv" + strconv.Itoa(i)
		if !slices.ContainsFunc(s.disks, func(d Disk) bool { return d.Name == name }) {
			return name
		}
	}
}

// ensureFile creates a file if it is missing, and reports whether it has no data.
func ensureFile(path string, size int64) (empty bool, err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return isHole(path)
	}
	if err != nil {
		return false, err
	}
	if err := errors.Join(file.Truncate(size), file.Close()); err != nil {
		return false, errors.Join(err, os.Remove(path))
	}
	return true, nil
}

// bindDisk returns the loop device of a disk, binding one if necessary. The kernel keeps the
// partitions of an unbound loop device and shows them on what is bound to it next, so bindDisk
// removes them from a new one.
func bindDisk(ctx context.Context, path string) (string, error) {
	bound, err := boundDisk(path)
	if err != nil {
		return "", err
	}
	if len(bound) > 0 {
		return bound[0].Device, nil
	}
	device, err := loopdev.Bind(ctx, path, DiskMark, false)
	if err != nil {
		return "", err
	}
	if err := removePartitions(ctx, device); err != nil {
		return "", errors.Join(err, unbindDisk(ctx, path))
	}
	return device, nil
}

func unbindDisk(ctx context.Context, path string) error {
	bound, err := boundDisk(path)
	if err != nil {
		return err
	}
	for _, each := range bound {
		if err := unbind(ctx, each); err != nil {
			return err
		}
	}
	return nil
}

// boundDisk returns the loop devices that a System bound to a disk.
func boundDisk(path string) ([]loopdev.Binding, error) {
	bound, err := loopdev.List(func(backing string) bool { return backing == path })
	return slices.DeleteFunc(bound, func(b loopdev.Binding) bool { return b.Mark != DiskMark || b.Deleted }), err
}

// DeletedDisks returns the loop devices that a System bound to its disks, or to other files in the
// same directories, and whose files were deleted since.
func (s *System) DeletedDisks() ([]loopdev.Binding, error) {
	directories := map[string]bool{}
	for _, disk := range s.Disks() {
		if disk.Zeroed {
			directories[filepath.Dir(disk.Path)] = true
		}
	}
	bound, err := loopdev.List(func(backing string) bool { return directories[filepath.Dir(backing)] })
	return slices.DeleteFunc(bound, func(b loopdev.Binding) bool { return b.Mark != DiskMark || !b.Deleted }), err
}

// realPath resolves symbolic links in a path whose last element may be missing.
func realPath(path string) (string, error) {
	directory, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	path = filepath.Join(directory, filepath.Base(path))
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		return resolved, nil
	}
	return path, nil
}
