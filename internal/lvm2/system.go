package lvm2

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Mode is how volumes become devices.
type Mode string

// The ways. See the package's description.
const (
	Auto         Mode = ""              // DeviceMapper where it is, or else Partitions
	DeviceMapper Mode = "device-mapper" // all of LVM
	Partitions   Mode = "partitions"    // contiguous volumes, as partitions of their disks
)

// Config says where a System lives.
type Config struct {
	// Directory is for the System and its owner: it is made if it is missing, and holds
	// the configuration, locks and nodes of disks. It may not lie on a file system that
	// is mounted with nodev.
	Directory string
	// SystemID is written on every volume group that is made. LVM acts on those of
	// its own system ID only: so it must be the same whenever this Directory's
	// volume groups are opened, and no other's on this machine.
	SystemID string
	// Mode is how volumes become devices.
	Mode Mode
	// MetadataSize is how many bytes of each disk are for metadata; 0 is LVM's own
	// 1 MiB, enough for some hundred volumes.
	MetadataSize int64
	// OnCommand, if not nil, is called before each command of LVM and again, with
	// ended, after it: by whoever runs it, so several at once. For logs and tests.
	OnCommand func(arguments []string, ended bool)
}

// System is a private LVM. Its methods, and those of its volume groups, may be
// called concurrently.
type System struct {
	directory string
	systemID  string
	mode      Mode
	command   string // lvm's path
	grace     time.Duration
	owner     *os.File
	activator activator
	onCommand func(arguments []string, ended bool)
	// layout are the arguments by which LVM divides a new disk.
	layout []string

	mu     sync.Mutex
	disks  []Disk
	groups map[string]*VolumeGroup
}

// directoryPattern is what is allowed of a directory, since LVM reads its path as a pattern too.
var directoryPattern = regexp.MustCompile(`^/[A-Za-z0-9_./-]+$`)

// systemIDPattern are those that LVM takes as they are.
var systemIDPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,126}$`)

// Open makes a System in its directory, or comes back to one. It gives ErrInUse
// while another process, or another System of this one, has the directory, and
// ErrUnsupported where there is no lvm, or device-mapper is wanted and is not here.
// The disks of an earlier System there are to be added again.
func Open(config Config) (*System, error) {
	directory := filepath.Clean(config.Directory)
	if !directoryPattern.MatchString(directory) {
		return nil, fmt.Errorf("directory %q: %w: want an absolute path of letters, digits and _.-", config.Directory, ErrInvalidArgument)
	}
	if !systemIDPattern.MatchString(config.SystemID) || strings.HasPrefix(config.SystemID, "localhost") {
		return nil, fmt.Errorf("system ID %q: %w", config.SystemID, ErrInvalidArgument)
	}
	s := &System{directory: directory, systemID: config.SystemID, mode: config.Mode, grace: commandGrace, groups: map[string]*VolumeGroup{}}
	s.onCommand = config.OnCommand
	s.layout = []string{"--dataalignment", "1m"}
	if config.MetadataSize > 0 {
		s.layout = append(s.layout, "--metadatasize", byteSize(config.MetadataSize))
	}
	var err error
	if s.command, err = findCommand(); err != nil {
		return nil, err
	}
	if s.mode == Auto {
		s.mode = Partitions
		if hasDeviceMapper() {
			s.mode = DeviceMapper
		}
	}
	if s.mode == DeviceMapper && !hasDeviceMapper() {
		return nil, ErrUnsupported
	}
	if s.mode == DeviceMapper {
		s.activator = mapper{s}
	} else {
		s.activator = partitions{system: s, mu: &sync.Mutex{}, cached: &sync.Map{}}
	}
	if err := s.prepare(); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare %s: %w", directory, err), s.Close())
	}
	return s, nil
}

// Close gives the directory back. Disks stay as they are, and volumes stay active.
func (s *System) Close() error {
	if s.owner == nil {
		return nil
	}
	err := s.owner.Close()
	s.owner = nil
	return err
}

// Mode returns how volumes become devices: never Auto.
func (s *System) Mode() Mode { return s.mode }

// findCommand returns lvm's path.
func findCommand() (string, error) {
	for _, directory := range filepath.SplitList(searchPath) {
		if path, err := exec.LookPath(filepath.Join(directory, "lvm")); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: there is no lvm in %s: install lvm2", ErrUnsupported, searchPath)
}

// prepare makes the directory, and takes it for this System alone.
func (s *System) prepare() error {
	for _, each := range []string{"", "lock", "dev"} {
		if err := os.MkdirAll(filepath.Join(s.directory, each), 0o700); err != nil {
			return err
		}
	}
	// A process that was killed as it began a command holds it until that has begun.
	err := retryBriefly(nil, func() (done bool, err error) {
		s.owner, err = lockFile(filepath.Join(s.directory, "owner"))
		return !errors.Is(err, ErrInUse), err
	})
	if err != nil {
		return err
	}
	if err := errors.Join(s.forgetDisks(), s.makeProc()); err != nil {
		return err
	}
	local := fmt.Sprintf("local {\n\tsystem_id = %q\n}\n", s.systemID)
	if err := os.WriteFile(filepath.Join(s.directory, "lvmlocal.conf"), []byte(local), 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.directory, "lvm.conf"), []byte(s.configuration()), 0o600)
}

// forgetDisks removes the nodes of disks: by now their numbers may be of other devices.
func (s *System) forgetDisks() error {
	nodes, err := filepath.Glob(s.node("pv*"))
	if err != nil {
		return err
	}
	for _, node := range nodes {
		if err := os.Remove(node); err != nil {
			return err
		}
	}
	return nil
}

// node is where the node of a disk is, by the disk's name.
func (s *System) node(disk string) string { return filepath.Join(s.directory, "dev", disk) }

// configuration is all that LVM is told. What the machine's own LVM shares with
// others is switched off or lies in the directory: devices, hints, locks, daemons.
func (s *System) configuration() string {
	activation := 0
	if s.mode == DeviceMapper {
		activation = 1
	}
	dev := s.node("")
	pattern := strings.NewReplacer(".", "[.]").Replace(dev)
	return fmt.Sprintf(`config {
	checks = 0
}
devices {
	dir = %[1]q
	scan = [ %[1]q ]
	global_filter = [ "a|^%[2]s/pv[0-9]+$|", "r|.*|" ]
	obtain_device_list_from_udev = 0
	external_device_info_source = "none"
	use_devicesfile = 0
	hints = "none"
	scan_lvs = 0
	issue_discards = 1
}
global {
	activation = %[3]d
	locking_dir = %[4]q
	system_id_source = "lvmlocal"
	use_aio = 0
	use_lvmpolld = 0
	event_activation = 0
	notify_dbus = 0
}
activation {
	udev_sync = 0
	udev_rules = 0
	monitoring = 0
	thin_pool_autoextend_threshold = 100
	snapshot_autoextend_threshold = 100
	error_when_full = 1
}
backup {
	backup = 0
	archive = 0
}
`, dev, pattern, activation, filepath.Join(s.directory, "lock"))
}
