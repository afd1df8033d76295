package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/plugins/nodefs"
)

// DeviceState returns the actual state of the devices for the rules of package invariant: the
// array's volumes, the backends of Config.Drivers and the nodes' mounts. It returns nil for Loop and LVM, whose state would have to
// be read from the kernel at every call and changes during the read. The result is valid until the
// cluster is closed.
func (c *Cluster) DeviceState() invariant.Devices {
	d, ok := c.driver.(*arrayDriver)
	if !ok {
		return nil
	}
	state := arrayState{cluster: c, array: d.array, plugins: []invariant.Backend{dirState{c.machine}}}
	for _, d := range c.drivers {
		if d.Backend != nil {
			state.plugins = append(state.plugins, d.Backend)
		}
	}
	return state
}

// An arrayState reads the array and the nodes' disks, both in memory.
type arrayState struct {
	cluster *Cluster
	array   *array.Array
	plugins []invariant.Backend
}

// Driver returns the name of the array's driver.
func (t arrayState) Driver() string { return t.cluster.driver.name() }

// Volumes returns the array's volumes by handle.
func (t arrayState) Volumes() []invariant.Volume {
	var all []invariant.Volume
	for _, id := range t.array.IDs() {
		if v, ok := t.Volume(id); ok {
			all = append(all, v)
		}
	}
	return all
}

// Volume returns one of the array's volumes. A node's ID is its name.
func (t arrayState) Volume(handle string) (invariant.Volume, bool) {
	v, ok := t.array.Volume(handle)
	if v.Settings == nil {
		v.Settings = noSettings
	}
	return invariant.Volume{
		Handle: v.ID, Name: v.Name, Attached: v.AttachedTo,
		Bytes: v.SizeBytes, FSBytes: v.FSBytes, Attributes: v.Settings,
	}, ok
}

// noSettings are the settings of a volume without any. A rule takes nil for unknown.
var noSettings = map[string]string{}

// Plugins returns the backends of other drivers, and that of the PersistentVolume controller's plugin
// whose volumes are directories.
func (t arrayState) Plugins() []invariant.Backend { return t.plugins }

// Snapshots returns the array's snapshots, by handle.
func (t arrayState) Snapshots() []invariant.Snapshot {
	var all []invariant.Snapshot
	for _, s := range t.array.Snapshots() {
		all = append(all, invariant.Snapshot{Handle: s.ID, Name: s.Name, Hash: s.Hash})
	}
	return all
}

// Source returns the handle of the volume or snapshot of which one of the array's volumes is a copy.
func (t arrayState) Source(handle string) string {
	v, _ := t.array.Volume(handle)
	return v.SourceID
}

// Files returns the paths of the files in a volume, sorted.
func (t arrayState) Files(handle string) []string { return t.array.Files(handle) }

// Owners returns owner and mode of everything in a volume, by path.
func (t arrayState) Owners(handle string) map[string]nodefs.Info { return t.array.Owners(handle) }

// Nodes returns the names of all nodes, sorted.
func (t arrayState) Nodes() []string {
	names := make([]string, len(t.cluster.nodes))
	for i, n := range t.cluster.nodes {
		names[i] = n.name
	}
	slices.Sort(names)
	return names
}

// Mounts returns the mounts of a node, without those of its disks; none for an unknown node.
func (t arrayState) Mounts(name string) []nodefs.Mount {
	at := slices.IndexFunc(t.cluster.nodes, func(n *node) bool { return n.name == name })
	if at < 0 {
		return nil
	}
	mounts, err := t.cluster.nodes[at].fs.Mounts()
	if err != nil {
		panic(fmt.Sprintf("cluster: mounts of %s, a disk in memory: %v", name, err))
	}
	mounts = t.cluster.driver.(*arrayDriver).disks.withoutDisks(name, mounts)
	if at := slices.IndexFunc(t.cluster.nodes, func(n *node) bool { return n.name == name }); at >= 0 && t.cluster.nodes[at].groups != nil {
		devices := t.cluster.nodes[at].root + "/dev/" // of volume groups
		mounts = slices.DeleteFunc(slices.Clone(mounts), func(m nodefs.Mount) bool { return strings.HasPrefix(m.Path, devices) })
	}
	return mounts
}

// Disk returns a node's disk and the kubelet's directory on it; nil for an unknown node.
func (t arrayState) Disk(name string) (nodefs.Reader, string) {
	at := slices.IndexFunc(t.cluster.nodes, func(n *node) bool { return n.name == name })
	if at < 0 {
		return nil, ""
	}
	return t.cluster.nodes[at].fs, t.cluster.nodes[at].root
}

// Directories returns the directories of pods and the staging directories of the drivers' volumes
// on a node.
func (t arrayState) Directories(name string) []string {
	at := slices.IndexFunc(t.cluster.nodes, func(n *node) bool { return n.name == name })
	if at < 0 {
		return nil
	}
	n := t.cluster.nodes[at]
	var dirs []string
	parents := []string{"pods"}
	for _, d := range t.cluster.drivers {
		parents = append(parents, filepath.Join("plugins", csi.PluginName, d.Name))
	}
	for _, of := range parents {
		parent := filepath.Join(n.root, of)
		names, err := n.fs.ReadDir(parent)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			panic(fmt.Sprintf("cluster: directories of %s, on a disk in memory: %v", name, err))
		}
		for _, d := range names {
			dirs = append(dirs, filepath.Join(parent, d))
		}
	}
	slices.Sort(dirs)
	return dirs
}

// A dirState reads the directories that are volumes.
type dirState struct{ machine hostpath.Machine }

// Driver returns the plugin's name.
func (t dirState) Driver() string { return hostpath.Name }

// Volumes returns the volumes that the plugin provisioned, by path.
func (t dirState) Volumes() []invariant.Volume {
	made, err := t.machine.Volumes()
	if err != nil {
		panic(fmt.Sprintf("cluster: directories of %s, on a disk in memory: %v", t.machine.Root, err))
	}
	all := make([]invariant.Volume, len(made))
	for i, v := range made {
		all[i] = invariant.Volume{Handle: v.Path, Name: v.Name}
	}
	return all
}

// Volume returns the volume at a path.
func (t dirState) Volume(path string) (invariant.Volume, bool) {
	all := t.Volumes()
	i := slices.IndexFunc(all, func(v invariant.Volume) bool { return v.Handle == path })
	if i < 0 {
		return invariant.Volume{}, false
	}
	return all[i], true
}
