package lvm2

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Mode is the way in which volumes become devices.
type Mode string

// The modes. See the package documentation.
const (
	Auto         Mode = ""              // DeviceMapper if available, else Partitions
	DeviceMapper Mode = "device-mapper" // all features of LVM
	Partitions   Mode = "partitions"    // contiguous volumes, as partitions of their disks
)

// Config configures a System.
type Config struct {
	// Directory belongs to the System alone and is created if missing. It holds the configuration,
	// locks and device nodes of disks. It must not lie on a file system that is mounted with nodev.
	Directory string
	// SystemID is written to every volume group that is created. LVM changes only volume groups
	// with its own system ID. So it must be the same whenever this Directory is opened, and unique
	// on the machine.
	SystemID string
	// Mode is the way in which volumes become devices.
	Mode Mode
	// MetadataSize is the size in bytes of the metadata area on each disk; 0 means LVM's default of
	// 1 MiB, enough for some hundred volumes.
	MetadataSize int64
	// OnCommand, if not nil, is called before each LVM command and, with ended set, after it. Calls
	// may be concurrent. It is meant for logs and tests.
	OnCommand func(arguments []string, ended bool)
}

// System is a private LVM. Its methods, and those of its volume groups, may be called concurrently.
type System struct {
	directory string
	systemID  string
	mode      Mode
	command   string // path of lvm
	grace     time.Duration
	owner     *os.File
	activator activator
	onCommand func(arguments []string, ended bool)
	// layout holds the arguments by which LVM lays out a new disk.
	layout []string

	mu     sync.Mutex
	disks  []Disk
	bound  map[string]bool // paths of the disks whose loop devices this System has bound
	groups map[string]*VolumeGroup
}

// directoryPattern restricts the directory, because LVM also uses its path as a pattern.
var directoryPattern = regexp.MustCompile(`^/[A-Za-z0-9_./-]+$`)

// systemIDPattern matches the system IDs that LVM uses unchanged.
var systemIDPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,126}$`)

// Open creates a System in its directory, or reopens it. It returns ErrInUse while another process,
// or another System of this process, has the directory open. It returns ErrUnsupported if lvm is
// missing, or if device-mapper is required but missing. Disks of an earlier System must be added
// again.
func Open(config Config) (*System, error) {
	directory := filepath.Clean(config.Directory)
	if !directoryPattern.MatchString(directory) {
		return nil, fmt.Errorf("directory %q: %w: want an absolute path of letters, digits and _.-", config.Directory,
			ErrInvalidArgument)
	}
	if !systemIDPattern.MatchString(config.SystemID) || strings.HasPrefix(config.SystemID, "localhost") {
		return nil, fmt.Errorf("system ID %q: %w", config.SystemID, ErrInvalidArgument)
	}
	s := &System{
		directory: directory, systemID: config.SystemID, mode: config.Mode, grace: commandGrace,
		groups: map[string]*VolumeGroup{}, bound: map[string]bool{},
	}
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

// Close releases the directory. Disks stay bound and volumes stay active.
func (s *System) Close() error {
	if s.owner == nil {
		return nil
	}
	err := s.owner.Close()
	s.owner = nil
	return err
}

// AwaitCommands waits for LVM commands of a killed process, which may still run. It is meant for a
// System that was just opened, and gives up after a minute. The error names the process.
func (s *System) AwaitCommands(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.grace, fmt.Errorf("not unlocked within %v", s.grace))
	defer cancel()
	files, err := filepath.Glob(filepath.Join(s.directory, "lock", "*"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := awaitUnlocked(ctx, file); err != nil {
			return fmt.Errorf("an LVM command of another process is running: %w", err)
		}
	}
	return nil
}

// Abandon closes a System whose volumes have not been used. It removes the loop devices that the
// System has bound.
func (s *System) Abandon(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var failed []error
	for _, path := range slices.Sorted(maps.Keys(s.bound)) {
		failed = append(failed, unbindDisk(ctx, path))
	}
	return errors.Join(append(failed, s.Close())...)
}

// Mode returns the mode in effect; it is never Auto.
func (s *System) Mode() Mode { return s.mode }

// findCommand returns the path of lvm.
func findCommand() (string, error) {
	for _, directory := range filepath.SplitList(searchPath) {
		if path, err := exec.LookPath(filepath.Join(directory, "lvm")); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: no lvm in %s: install lvm2", ErrUnsupported, searchPath)
}

// prepare creates the directory and locks it for this System.
func (s *System) prepare() error {
	for _, each := range []string{"", "lock", "dev"} {
		if err := os.MkdirAll(filepath.Join(s.directory, each), 0o700); err != nil {
			return err
		}
	}
	// A child of a killed process holds the lock until it has started its program.
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

// forgetDisks removes the device nodes of disks, because their device numbers may be reused by now.
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

// node returns the path of a disk's device node.
func (s *System) node(disk string) string { return filepath.Join(s.directory, "dev", disk) }

// configuration returns LVM's configuration. Everything that the machine's own LVM shares (devices,
// hints, locks, daemons) is switched off or lies in the directory.
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
