package invariant_test

import (
	"slices"

	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/plugins/nodefs"
)

// devicesStub is a state of the devices that a test sets. Its driver is disk.example.com.
type devicesStub struct {
	volumes []invariant.Volume
	mounts  map[string][]nodefs.Mount // by node
	plugins []invariant.Backend

	snapshots []invariant.Snapshot
	sources   map[string]string // of volumes
}

// pluginStub is a plugin with volumes that a test sets.
type pluginStub struct{ devicesStub }

func (p *pluginStub) Driver() string { return "kubernetes.io/host-path" }

func (d *devicesStub) Driver() string                 { return "disk.example.com" }
func (d *devicesStub) Volumes() []invariant.Volume    { return d.volumes }
func (d *devicesStub) Plugins() []invariant.Backend   { return d.plugins }
func (d *devicesStub) Nodes() []string                { return []string{"node-1", "node-2"} }
func (d *devicesStub) Mounts(n string) []nodefs.Mount { return d.mounts[n] }

func (d *devicesStub) Snapshots() []invariant.Snapshot { return d.snapshots }
func (d *devicesStub) Source(handle string) string     { return d.sources[handle] }

func (d *devicesStub) Volume(handle string) (invariant.Volume, bool) {
	i := slices.IndexFunc(d.volumes, func(v invariant.Volume) bool { return v.Handle == handle })
	if i < 0 {
		return invariant.Volume{}, false
	}
	return d.volumes[i], true
}
