package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/moby/sys/mountinfo"

	"github.com/volsim/volsim/internal/filelock"
	"github.com/volsim/volsim/internal/lvm2"
	"github.com/volsim/volsim/plugins/nodefs"
)

// lockMax is how long a call waits for others of the same machine.
const lockMax = time.Minute

// An lvmDriver has the logical volumes of one volume group as volumes: a volume is named like its
// PersistentVolume. It is created by the first attach if the option "size" is set, in bytes.
type lvmDriver struct {
	Directory string `json:"directory"` // of the private LVM
	Group     string `json:"group"`     // the volume group
	Disk      string `json:"disk"`      // the file that is its disk
	DiskBytes int64  `json:"diskBytes"` // of a disk that does not exist yet
}

// newLVM returns the driver of logical volumes.
func newLVM() (driver, error) {
	var d lvmDriver
	if err := readConfig(&d); err != nil {
		return nil, err
	}
	return driver{
		"init": {0, func([]string) (answer, error) {
			return answer{Capabilities: map[string]bool{
				"attach": true, "fsGroup": true, "requiresFSResize": true, "supportsMetrics": true, "selinuxRelabel": false,
			}}, nil
		}},
		"getvolumename": {1, d.withOptions(0, func(o options, _ []string) (answer, error) {
			return answer{VolumeName: d.Group + "-" + o.name()}, nil
		})},
		"attach":        {2, d.withOptions(0, d.attach)},
		"isattached":    {2, d.withOptions(0, d.isAttached)},
		"waitforattach": {2, d.withOptions(1, d.waitForAttach)},
		"detach":        {2, d.detach},
		"mountdevice":   {3, d.withOptions(2, d.mountDevice)},
		"unmountdevice": {1, func(args []string) (answer, error) { return answer{}, unmount(args[0]) }},
		"expandvolume":  {4, d.withOptions(0, func(o options, args []string) (answer, error) { return d.expand(o, args[2]) })},
		"expandfs": {5, d.withOptions(0, func(o options, args []string) (answer, error) {
			return d.expandFS(o, args[1], args[2], args[3])
		})},
	}, nil
}

// withOptions parses the options, which are one of the arguments.
func (d lvmDriver) withOptions(at int, run func(o options, args []string) (answer, error)) func([]string) (answer, error) {
	return func(args []string) (answer, error) {
		o, err := parseOptions(args[at])
		if err == nil && o.name() == "" {
			err = errors.New("options: the volume has no name")
		}
		if err != nil {
			return answer{}, err
		}
		return run(o, args)
	}
}

// use calls do with the volume group. Calls of several processes are made one after the other.
func (d lvmDriver) use(do func(ctx context.Context, group *lvm2.VolumeGroup) error) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), lockMax)
	defer cancel()
	if err := os.MkdirAll(d.Directory, 0o700); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(filepath.Dir(d.Disk), "."+d.Group+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // it has no content
	if err := filelock.Lock(ctx, lock); err != nil {
		return err
	}
	system, err := lvm2.Open(lvm2.Config{Directory: d.Directory, SystemID: d.Group})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, system.Close()) }()
	disk, err := system.AddFile(ctx, d.Disk, d.DiskBytes)
	if err != nil {
		return err
	}
	group, err := system.CreateVolumeGroup(ctx, lvm2.GroupSpec{Name: d.Group, Disks: []string{disk.Name}})
	if err != nil {
		return err
	}
	return do(ctx, group)
}

func (d lvmDriver) attach(o options, _ []string) (a answer, err error) {
	err = d.use(func(ctx context.Context, group *lvm2.VolumeGroup) error {
		if _, err := group.Find(ctx, o.name()); errors.Is(err, lvm2.ErrNotFound) && o["size"] != "" {
			size, err := strconv.ParseInt(o["size"], 10, 64)
			if err != nil {
				return fmt.Errorf("option size: %w", err)
			}
			if _, err := group.Create(ctx, lvm2.Spec{Name: o.name(), Size: size}); err != nil {
				return err
			}
		} else if err != nil {
			return err
		}
		a.Device, err = group.Activate(ctx, o.name())
		return err
	})
	return a, err
}

func (d lvmDriver) isAttached(o options, _ []string) (a answer, err error) {
	err = d.use(func(ctx context.Context, group *lvm2.VolumeGroup) error {
		device, err := group.Device(ctx, o.name())
		a.Attached = device != "" && err == nil
		if errors.Is(err, lvm2.ErrNotFound) {
			return nil
		}
		return err
	})
	return a, err
}

func (d lvmDriver) waitForAttach(o options, args []string) (a answer, err error) {
	err = d.use(func(ctx context.Context, group *lvm2.VolumeGroup) error {
		device, err := group.Device(ctx, o.name())
		if err == nil && (device == "" || device != args[0]) {
			err = fmt.Errorf("device of volume %s is %q, not %q", o.name(), device, args[0])
		}
		a.Device = device
		return err
	})
	return a, err
}

func (d lvmDriver) detach(args []string) (answer, error) {
	return answer{}, d.use(func(ctx context.Context, group *lvm2.VolumeGroup) error {
		return group.Deactivate(ctx, args[0])
	})
}

// mountDevice formats a volume without a file system, and mounts it. A file system that could not
// grow while it was mounted grows now. For a pod it is bound by the kubelet.
func (d lvmDriver) mountDevice(o options, args []string) (answer, error) {
	target, device := args[0], args[1]
	if mounted, err := mountinfo.Mounted(target); err != nil || mounted {
		return answer{}, err
	}
	if info, err := os.Stat(device); err != nil {
		return answer{}, err
	} else if info.Mode()&os.ModeDevice == 0 {
		return answer{}, fmt.Errorf("%s is not a device", device)
	}
	disk, err := nodefs.NewReal(filepath.Dir(target))
	if err != nil {
		return answer{}, err
	}
	if !o.readOnly() {
		if err := disk.GrowUnmounted(context.Background(), device); err != nil {
			return answer{}, err
		}
	}
	return answer{}, disk.FormatAndMount(context.Background(), device, target, o["kubernetes.io/fsType"], []string{o.access()})
}

func (d lvmDriver) expand(o options, text string) (a answer, err error) {
	size, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return a, fmt.Errorf("size: %w", err)
	}
	err = d.use(func(ctx context.Context, group *lvm2.VolumeGroup) error {
		volume, err := group.Extend(ctx, o.name(), size)
		a.Size = volume.Size
		return err
	})
	return a, err
}

// expandFS expands the volume, in case that no controller has made the call expandvolume, and then
// its file system. In a container that may not do that while the file system is mounted, it fails;
// the file system grows when the volume is mounted next.
func (d lvmDriver) expandFS(o options, device, mountPath, text string) (answer, error) {
	a, err := d.expand(o, text)
	if err != nil {
		return a, err
	}
	disk, err := nodefs.NewReal(filepath.Dir(mountPath))
	if err != nil {
		return a, err
	}
	return a, disk.Grow(context.Background(), device, mountPath)
}
