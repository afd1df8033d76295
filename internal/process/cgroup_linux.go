//go:build amd64 || arm64

package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// Limits of a run.
const (
	defaultMemory = 256 << 20 // bytes, without a limit of its container
	processesMax  = 256
)

// groupsPrefix begins the names of cgroups, followed by the number of the process that makes them.
const groupsPrefix = "volsim-"

// cgroups make and remove the cgroups of the runs of a node.
type cgroups struct {
	hierarchies []hierarchy
	name        string // of the directory in each hierarchy
}

// A hierarchy is a tree of cgroups.
type hierarchy struct {
	dir         string // where groups are made
	controllers []string
	unified     bool // version 2
}

// newCgroups returns the cgroups of a node. It removes those of programs that have ended.
func newCgroups() (*cgroups, error) {
	hierarchies, err := findHierarchies()
	if err != nil {
		return nil, err
	}
	g := &cgroups{hierarchies: hierarchies}
	for i, h := range hierarchies {
		h.removeOld()
		if i == 0 {
			made, err := os.MkdirTemp(h.dir, groupsPrefix+strconv.Itoa(os.Getpid())+"-*")
			if err != nil {
				return nil, fmt.Errorf("make a cgroup: %w", err)
			}
			g.name = filepath.Base(made)
		} else if err := os.Mkdir(filepath.Join(h.dir, g.name), 0o755); err != nil {
			return nil, errors.Join(fmt.Errorf("make a cgroup: %w", err), g.close())
		}
		if h.unified {
			if err := enableControllers(filepath.Join(h.dir, g.name), h.controllers); err != nil {
				return nil, errors.Join(err, g.close())
			}
		}
	}
	return g, nil
}

// findHierarchies returns the hierarchies with the controllers of memory and processes.
func findHierarchies() ([]hierarchy, error) {
	mounts, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		return nil, err
	}
	current, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	var found []hierarchy
	missing := []string{"memory", "pids"}
	for _, m := range mounts {
		h := hierarchy{dir: m.Mountpoint, unified: m.FSType == "cgroup2"}
		available := strings.Split(m.VFSOptions, ",")
		if h.unified {
			list, err := os.ReadFile(filepath.Join(m.Mountpoint, "cgroup.controllers"))
			if err != nil {
				continue
			}
			available = strings.Fields(string(list))
		}
		for _, c := range slices.Clone(missing) {
			if slices.Contains(available, c) {
				h.controllers = append(h.controllers, c)
				missing = slices.DeleteFunc(missing, func(name string) bool { return name == c })
			}
		}
		if len(h.controllers) == 0 {
			continue
		}
		if h.unified {
			if err := enableControllers(h.dir, h.controllers); err != nil {
				return nil, err
			}
		} else if dir := filepath.Join(h.dir, currentGroup(string(current), h.controllers[0])); isDirectory(dir) {
			h.dir = dir // limits of this program hold for the runs, too
		}
		found = append(found, h)
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("no cgroup controller for %s: mount cgroups at /sys/fs/cgroup", strings.Join(missing, " and "))
	}
	return found, nil
}

func isDirectory(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// currentGroup returns the path of this program's cgroup in the hierarchy of a controller.
func currentGroup(text, controller string) string {
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) == 3 && slices.Contains(strings.Split(fields[1], ","), controller) {
			return fields[2]
		}
	}
	return "/"
}

// enableControllers lets the groups below a directory have controllers.
func enableControllers(dir string, controllers []string) error {
	file := filepath.Join(dir, "cgroup.subtree_control")
	now, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the controllers of cgroups: %w", err)
	}
	for _, c := range controllers {
		if slices.Contains(strings.Fields(string(now)), c) {
			continue
		}
		if err := writeControl(file, "+"+c); err != nil {
			return fmt.Errorf("enable the controller for %s: %w", c, err)
		}
	}
	return nil
}

func writeControl(file, value string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// add makes the cgroups of a run.
func (g *cgroups) add(name string, memory int64) error {
	if memory <= 0 {
		memory = defaultMemory
	}
	for _, h := range g.hierarchies {
		dir := filepath.Join(h.dir, g.name, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return errors.Join(fmt.Errorf("make a cgroup: %w", err), g.remove(name))
		}
		for _, s := range h.settings(memory) {
			err := writeControl(filepath.Join(dir, s.file), s.value)
			if err != nil && (!s.optional || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.EINVAL)) {
				return errors.Join(fmt.Errorf("limit a container: %w", err), g.remove(name))
			}
		}
	}
	return nil
}

// A setting is a value of a cgroup.
type setting struct {
	file, value string
	optional    bool // not every kernel has it
}

func (h hierarchy) settings(memory int64) []setting {
	var all []setting
	if slices.Contains(h.controllers, "pids") {
		all = append(all, setting{"pids.max", strconv.Itoa(processesMax), false})
	}
	if !slices.Contains(h.controllers, "memory") {
		return all
	}
	bytes := strconv.FormatInt(memory, 10)
	if h.unified {
		return append(all, setting{"memory.max", bytes, false}, setting{"memory.swap.max", "0", true}, setting{"memory.oom.group", "1", true})
	}
	return append(all, setting{"memory.limit_in_bytes", bytes, false}, setting{"memory.memsw.limit_in_bytes", bytes, true})
}

// enter puts a process into the cgroups of a run.
func (g *cgroups) enter(name string, pid int) error {
	for _, h := range g.hierarchies {
		if err := writeControl(filepath.Join(h.dir, g.name, name, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("enter a cgroup: %w", err)
		}
	}
	return nil
}

// remove removes the cgroups of a run whose processes have ended.
func (g *cgroups) remove(name string) error {
	var errs []error
	for _, h := range g.hierarchies {
		if err := os.Remove(filepath.Join(h.dir, g.name, name)); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// close removes the cgroups of the node.
func (g *cgroups) close() error { return g.remove("") }

// removeOld removes the cgroups of programs that have ended. One that has processes cannot be removed.
func (h hierarchy) removeOld() {
	groups, _ := filepath.Glob(filepath.Join(h.dir, groupsPrefix+"*"))
	for _, dir := range groups {
		number, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), groupsPrefix), "-")
		if pid, err := strconv.Atoi(number); err != nil || unix.Kill(pid, 0) != unix.ESRCH {
			continue
		}
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if e.IsDir() {
				_ = os.Remove(filepath.Join(dir, e.Name()))
			}
		}
		_ = os.Remove(dir)
	}
}
