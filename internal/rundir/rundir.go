package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// FileName is the name of the record in a directory.
const FileName = "volsim-run.json"

// version is the version of the record.
const version = 1

// Run is the record of a run: which process it is, and what it creates.
type Run struct {
	Version int     `json:"version"`
	Process Process `json:"process"`
	// Identity is the identity of the cluster.
	Identity uint64 `json:"identity"`
	// Devices is the kind of its devices.
	Devices string `json:"devices"`
	// Paths are the names in the directory that belong to the run.
	Paths []string `json:"paths"`
	// SystemID is the system ID of its private LVM; "" for none.
	SystemID string `json:"systemID,omitempty"`
}

// Process identifies a process of this machine, across restarts of the machine.
type Process struct {
	PID int `json:"pid"`
	// Start is when the process started, in clock ticks since the boot.
	Start uint64 `json:"start"`
	// Boot is the kernel's ID of the boot.
	Boot string `json:"boot"`
}

// Dir is a locked directory.
type Dir struct {
	path    string
	file    *os.File
	earlier *Run
}

// The directories that this process has locked, by the path of the record. The kernel's lock does
// not decide between users within a process, and closing any descriptor of the file would end it.
var (
	mu     sync.Mutex
	locked = map[string]bool{} // guarded by mu
)

// Lock locks a directory for this process. It returns an error if a running process uses the
// directory.
func Lock(path string) (*Dir, error) { return open(path, true) }

// LockAbandoned locks a private directory of this user that has the record of a process that has
// ended. It returns nil if there is none, and an error as Lock does.
func LockAbandoned(path string) (*Dir, error) {
	if private, err := isPrivate(path); err != nil || !private {
		return nil, ignoreMissing(err)
	}
	info, err := os.Lstat(filepath.Join(path, FileName))
	if err != nil || info.Size() == 0 { // a process may be about to lock it and to write its record
		return nil, ignoreMissing(err)
	}
	d, err := open(path, false)
	if err == nil && d.earlier == nil {
		return nil, d.Unlock()
	}
	return d, ignoreMissing(err)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func open(path string, create bool) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return nil, err
	}
	record := filepath.Join(path, FileName)
	mu.Lock()
	defer mu.Unlock()
	if locked[record] {
		return nil, &inUseError{path, os.Getpid()}
	}
	d, err := openRecord(path, create)
	if busy := (*inUseError)(nil); create && errors.As(err, &busy) && endsSoon(busy.pid) {
		d, err = openRecord(path, create)
	}
	if err == nil {
		locked[record] = true
	}
	return d, err
}

// openRecord opens, locks and reads the record of a directory.
func openRecord(path string, create bool) (*Dir, error) {
	file, err := openLocked(filepath.Join(path, FileName), create)
	if err != nil {
		return nil, err
	}
	d := &Dir{path: path, file: file}
	if err := d.read(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return d, nil
}

// inUseError says that a running process uses a directory.
type inUseError struct {
	path string
	pid  int // 0: not visible here
}

// Error implements error.
func (e *inUseError) Error() string {
	if e.pid <= 0 {
		return fmt.Sprintf("directory %q is in use by volsim, in a process that is not visible here", e.path)
	}
	return fmt.Sprintf("directory %q is in use by volsim, process %d", e.path, e.pid)
}

// read reads the record. An empty file is that of a process that has created nothing yet.
func (d *Dir) read() error {
	text, err := io.ReadAll(io.NewSectionReader(d.file, 0, 1<<20))
	if err != nil || len(text) == 0 {
		return err
	}
	earlier := &Run{}
	if err := json.Unmarshal(text, earlier); err != nil || earlier.Version != version {
		return fmt.Errorf("%s is not a record of this version of volsim: "+
			"remove what the earlier run left in the directory, or use another directory", d.file.Name())
	}
	running, err := earlier.Process.isRunning()
	if err != nil {
		return err
	}
	if running && earlier.Process.PID != os.Getpid() {
		return &inUseError{d.path, earlier.Process.PID}
	}
	d.earlier = earlier
	return nil
}

// Path returns the directory without symbolic links.
func (d *Dir) Path() string { return d.path }

// Earlier returns the record of the last run, whose process has ended or has given up the
// directory. It returns nil if nothing is recorded.
func (d *Dir) Earlier() *Run { return d.earlier }

// Record durably records a run of this process, and replaces the record of an earlier one. Version
// and Process are set.
func (d *Dir) Record(run Run) error {
	run.Version = version
	var err error
	if run.Process, err = thisProcess(); err != nil {
		return err
	}
	text, err := json.MarshalIndent(run, "", "\t")
	if err != nil {
		return err
	}
	if err := d.file.Truncate(0); err != nil {
		return err
	}
	if _, err := d.file.WriteAt(append(text, '\n'), 0); err != nil {
		return err
	}
	return d.file.Sync()
}

// Release removes the record and unlocks the directory.
func (d *Dir) Release() error {
	err := os.Remove(d.file.Name())
	return errors.Join(err, d.Unlock())
}

// Unlock unlocks the directory and keeps the record, for a later run to remove what is left.
func (d *Dir) Unlock() error {
	mu.Lock()
	defer mu.Unlock()
	delete(locked, d.file.Name())
	return d.file.Close()
}
