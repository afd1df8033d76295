//go:build amd64 || arm64

package process

import (
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/volsim/volsim/kubelet/container"
)

// openRoot opens what a run sees, in the machine's mount namespace.
func (r *Runtime) openRoot(spec *container.Spec) (*root, error) {
	made := &root{spec: spec, template: r.template}
	for _, m := range spec.Mounts {
		v, err := r.openVolume(m)
		if err != nil {
			made.close()
			return nil, fmt.Errorf("mount %s at %s: %w", m.Source, m.Path, err)
		}
		made.volumes = append(made.volumes, v)
	}
	for _, d := range spec.Devices {
		number, err := deviceNumber(d.Source)
		if err == nil {
			err = checkMountPoint(d.Path)
		}
		if err != nil {
			made.close()
			return nil, fmt.Errorf("device %s at %s: %w", d.Source, d.Path, err)
		}
		made.devices = append(made.devices, device{d.Path, number})
	}
	return made, nil
}

// close closes what build has not mounted.
func (r *root) close() {
	for _, v := range r.volumes {
		unix.Close(v.tree)
	}
	r.volumes = nil
}

// openVolume returns a copy of the mount at the source of a volume.
func (r *Runtime) openVolume(m container.Mount) (volume, error) {
	if err := checkMountPoint(m.Path); err != nil {
		return volume{}, err
	}
	source, err := r.openSource(m.Source)
	if err != nil {
		return volume{}, err
	}
	defer unix.Close(source)
	var info unix.Stat_t
	if err := unix.Fstat(source, &info); err != nil {
		return volume{}, err
	}
	tree, err := cloneTree(source, "")
	if err != nil {
		return volume{}, err
	}
	attributes := uint64(plainMount)
	if m.ReadOnly {
		attributes = readOnlyMount
	}
	if err := isolate(tree, attributes); err != nil {
		unix.Close(tree)
		return volume{}, err
	}
	return volume{m, tree, info.Mode&unix.S_IFMT == unix.S_IFDIR}, nil
}

// openSource opens a file or directory of the node. Its links are followed inside the node's directory; one that
// appears meanwhile is not.
func (r *Runtime) openSource(name string) (int, error) {
	place, err := filepath.EvalSymlinks(name)
	if err != nil {
		return -1, err
	}
	rest, ok := strings.CutPrefix(place, r.root+"/")
	if !ok {
		return -1, fmt.Errorf("%s is outside the node's directory %s", place, r.root)
	}
	dir, err := unix.Open(r.root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(dir)
	return unix.Openat2(dir, rest, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
}

// deviceNumber returns the number of the block device that a path of the node refers to. The directories of devices
// are the kubelet's, so the links in them are.
func deviceNumber(name string) (uint64, error) {
	var info unix.Stat_t
	if err := unix.Stat(name, &info); err != nil {
		return 0, err
	}
	if info.Mode&unix.S_IFMT != unix.S_IFBLK {
		return 0, fmt.Errorf("%s is no block device", name)
	}
	return info.Rdev, nil
}
