package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/volsim/volsim/internal/blockdev"
	"github.com/volsim/volsim/internal/loopdev"
	"github.com/volsim/volsim/internal/lvm2"
	"github.com/volsim/volsim/internal/rundir"
	"github.com/volsim/volsim/plugins/loop"
	"github.com/volsim/volsim/plugins/nodefs"
)

// The names in a cluster's directory.
const (
	imagesName  = "volumes" // the directory of the loop driver's files
	exportsName = "nfs"     // the directory of what NFS servers export
	lvmPrefix   = "lvm-"    // followed by a node's name: its private LVM
	diskPrefix  = "disk-"   // followed by a node's name: its disk
	// followed by a node's name: the private LVM of Config.LocalStorage
	groupsPrefix = "groups-"
)

// ownNames matches the names that a cluster creates in its directory. The others are the nodes'
// names, for the directories of their kubelets.
var ownNames = regexp.MustCompile(`^(` + imagesName + `|` + controlPlaneName + `|` + exportsName + `|(` + lvmPrefix + `|` + diskPrefix + `|` + groupsPrefix + `)?node-[1-9][0-9]*)$`)

// temporaryPrefix begins the names of temporary directories of clusters.
const temporaryPrefix = "volsim-cluster-"

// removeTriesMax bounds how often remains are removed. A program that the killed process started may
// still mount or open a device.
const removeTriesMax = 3

// Cleared returns one line for each earlier run whose remains New found: what it removed, or why it
// could not.
func (c *Cluster) Cleared() []string {
	if d, is := c.driver.(*blockDriver); is {
		return slices.Clone(d.cleared)
	}
	return nil
}

// clearTemporary removes what killed runs of this user left in temporary directories. It returns
// one line for each.
func clearTemporary(ctx context.Context) []string {
	entries, err := os.ReadDir(os.TempDir())
	if err != nil {
		return nil // creating a directory there fails with the reason
	}
	var lines []string
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), temporaryPrefix) {
			continue
		}
		path := filepath.Join(os.TempDir(), entry.Name())
		dir, err := rundir.LockAbandoned(path)
		if err != nil || dir == nil {
			continue // it is in use, or not a run's
		}
		line, err := clearRun(ctx, dir)
		if err == nil {
			err = errors.Join(dir.Release(), os.Remove(path))
		} else {
			err = errors.Join(err, dir.Unlock())
		}
		if err != nil {
			line = err.Error()
		}
		lines = append(lines, line)
	}
	return lines
}

// clearRun removes what the earlier run of a directory left, and says what that was. It removes
// nothing else: an error names what must be removed manually.
func clearRun(ctx context.Context, dir *rundir.Dir) (string, error) {
	r := remains{dir: dir.Path(), run: dir.Earlier()}
	of := fmt.Sprintf("an earlier run in %s (process %d, not running)", r.dir, r.run.Process.PID)
	err := r.check()
	if err == nil {
		err = r.remove(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("remove what is left of %s: %w", of, err)
	}
	return "removed " + r.counts() + " of " + of, nil
}

// remains are what a run that has ended left in its directory.
type remains struct {
	dir string
	run *rundir.Run
	// The numbers of what was removed.
	volumes, groups, devices, mounts int
}

// check returns an error if the directory has something at a place of the run that the run did not
// create.
func (r *remains) check() error {
	for _, name := range r.run.Paths {
		if !ownNames.MatchString(name) {
			return fmt.Errorf("the record %s names %q: correct it", filepath.Join(r.dir, rundir.FileName), name)
		}
		info, err := os.Lstat(filepath.Join(r.dir, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if isDisk := strings.HasPrefix(name, diskPrefix); isDisk != info.Mode().IsRegular() || isDisk == info.IsDir() {
			return fmt.Errorf("%s is not what a run creates there: move it away", filepath.Join(r.dir, name))
		}
	}
	return nil
}

// remove removes everything that is left.
func (r *remains) remove(ctx context.Context) (err error) {
	for range removeTriesMax {
		if err = r.release(ctx); err == nil {
			err = r.removeFiles()
		}
		if err == nil {
			return nil
		}
	}
	return err
}

// paths returns the existing paths of the run.
func (r *remains) paths() []string {
	var paths []string
	for _, name := range r.run.Paths {
		path := filepath.Join(r.dir, name)
		if _, err := os.Lstat(path); err == nil {
			paths = append(paths, path)
		}
	}
	return paths
}

// below reports whether a path is one of the run's or below one.
func (r *remains) below(path string) bool {
	return slices.ContainsFunc(r.run.Paths, func(name string) bool {
		own := filepath.Join(r.dir, name)
		return path == own || strings.HasPrefix(path, own+"/")
	})
}

// findDevices returns the loop devices of the run, in the order in which they can be released: those
// over its devices, those over files in its volumes, and those over its own files. The process may
// have had other paths to all of them.
func (r *remains) findDevices() ([]loopdev.Binding, error) {
	own, err := r.loopsOver(imagesName+"/*.img", diskPrefix+"*", "*/"+disksDir+"/*")
	if err != nil {
		return nil, err
	}
	nodes, err := fs.Glob(os.DirFS("/dev"), "loop*")
	if err != nil {
		return nil, err
	}
	var used []string // the nodes of its devices
	for _, node := range nodes {
		device, _, _ := strings.Cut(strings.TrimPrefix(node, "loop"), "p")
		if slices.ContainsFunc(own, func(b loopdev.Binding) bool { return b.Device == "/dev/loop"+device }) {
			used = append(used, "/dev/"+node)
		}
	}
	locks, err := loopdev.Over(used...)
	if err != nil {
		return nil, err
	}
	more, err := r.loopsOver(lvmPrefix + "*/dev/*/*")
	if err != nil {
		return nil, err
	}
	nested, err := loopdev.List(r.below)
	nested = slices.DeleteFunc(nested, func(b loopdev.Binding) bool { return slices.Contains(own, b) })
	var all []loopdev.Binding
	for _, each := range slices.Concat(locks, more, nested, own) {
		if !slices.Contains(all, each) {
			all = append(all, each)
		}
	}
	return all, err
}

// loopsOver returns the loop devices over files of the run.
func (r *remains) loopsOver(patterns ...string) ([]loopdev.Binding, error) {
	var files []string
	for _, pattern := range patterns {
		names, err := fs.Glob(os.DirFS(r.dir), pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if path := filepath.Join(r.dir, name); r.below(path) {
				files = append(files, path)
			}
		}
	}
	return loopdev.Over(files...)
}

// release removes the mounts of the run and its devices.
func (r *remains) release(ctx context.Context) error {
	bound, err := r.findDevices()
	if err != nil {
		return err
	}
	failed := []error{r.unmount(bound)}     // a device over a file in a volume may keep it busy
	disks := map[string][]loopdev.Binding{} // by node
	for _, each := range bound {
		name := filepath.Base(each.BackingFile)
		if node, is := strings.CutPrefix(name, diskPrefix); is && slices.Contains(r.run.Paths, name) {
			disks[node] = append(disks[node], each)
		} else if node := r.nodeOf(each, bound); node != "" && each.Mark == lvm2.DiskMark {
			cfg := lvm2.Config{Directory: filepath.Join(r.dir, groupsPrefix+node), SystemID: r.run.SystemID}
			failed = append(failed, r.released(1, lvm2.Release(ctx, cfg, each)))
		} else {
			failed = append(failed, r.released(1, loopdev.Unbind(ctx, each)))
		}
	}
	for node, each := range disks {
		cfg := lvm2.Config{Directory: filepath.Join(r.dir, lvmPrefix+node), SystemID: r.run.SystemID}
		failed = append(failed, r.released(len(each), lvm2.Release(ctx, cfg, each...)))
	}
	return errors.Join(failed...)
}

// nodeOf returns the node of whose disk a loop device is a part: it is over the disk's device. "" means
// none.
func (r *remains) nodeOf(device loopdev.Binding, bound []loopdev.Binding) string {
	for _, disk := range bound {
		if at, below := strings.CutPrefix(disk.BackingFile, r.dir+"/"); below && disk.Device == device.BackingFile {
			node, _, _ := strings.Cut(at, "/")
			return node
		}
	}
	return ""
}

func (r *remains) released(devices int, err error) error {
	if err == nil {
		r.devices += devices
	}
	return err
}

// unmount removes the mounts below the nodes' directories.
func (r *remains) unmount(bound []loopdev.Binding) error {
	for _, path := range r.paths() {
		if name := filepath.Base(path); name == imagesName || strings.HasPrefix(name, lvmPrefix) || strings.HasPrefix(name, groupsPrefix) || strings.HasPrefix(name, diskPrefix) {
			continue
		}
		node, err := nodefs.NewReal(path)
		if err != nil {
			return err
		}
		mounts, err := node.Mounts()
		if err != nil {
			return err
		}
		for _, each := range mounts {
			if err := r.thaw(each.Source, bound); err != nil {
				return err
			}
		}
		if err := node.UnmountAll(); err != nil {
			return err
		}
		r.mounts += len(mounts)
	}
	return nil
}

// thaw thaws the file system on a device of the run, which a killed process may have frozen. Frozen,
// it would keep its device after it is unmounted.
func (r *remains) thaw(source string, bound []loopdev.Binding) error {
	ours := r.below(source) || slices.ContainsFunc(bound, func(b loopdev.Binding) bool {
		return source == b.Device || strings.HasPrefix(source, b.Device+"p")
	})
	if !ours {
		return nil
	}
	if _, err := blockdev.NumberOf(source); err != nil {
		return nil //nolint:nilerr // the source of a bind mount, not a device
	}
	_, err := blockdev.Thaw(source)
	return err
}

// removeFiles removes the run's files. Nothing may be mounted over or below them.
func (r *remains) removeFiles() error {
	all, err := nodefs.NewReal(r.dir)
	if err != nil {
		return err
	}
	mounts, err := all.Mounts()
	if err != nil {
		return err
	}
	for _, each := range mounts {
		if r.below(each.Path) {
			return fmt.Errorf("%s is mounted: unmount it", each.Path)
		}
	}
	for _, path := range r.paths() {
		if filepath.Base(path) == imagesName {
			err = r.removeImages(path)
		} else {
			err = all.RemoveAll(path)
		}
		if err != nil {
			return err
		}
		if strings.HasPrefix(filepath.Base(path), diskPrefix) {
			r.groups++
		}
	}
	return nil
}

// removeImages removes the volumes of the loop driver.
func (r *remains) removeImages(path string) error {
	volumes, err := fs.Glob(os.DirFS(path), "*.img")
	if err != nil {
		return err
	}
	devices, err := loop.New(loop.Config{Dir: path, AnyParameters: true})
	if err == nil {
		err = devices.Close()
	}
	if err != nil {
		return err
	}
	foreign, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	if len(foreign) > 0 {
		return fmt.Errorf("%s is not a file of volsim: move it away", filepath.Join(path, foreign[0].Name()))
	}
	r.volumes += len(volumes)
	return os.Remove(path)
}

// counts describes what was removed.
func (r *remains) counts() string {
	var all []string
	for _, each := range []struct {
		count int
		what  string
	}{{r.volumes, "volume"}, {r.groups, "volume group"}, {r.devices, "loop device"}, {r.mounts, "mount"}} {
		switch each.count {
		case 0:
		case 1:
			all = append(all, "1 "+each.what)
		default:
			all = append(all, fmt.Sprintf("%d %ss", each.count, each.what))
		}
	}
	if len(all) == 0 {
		return "the empty directories"
	}
	if last := len(all) - 1; last > 0 {
		return strings.Join(all[:last], ", ") + " and " + all[last]
	}
	return all[0]
}
