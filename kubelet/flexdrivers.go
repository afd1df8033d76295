package kubelet

import (
	"context"

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/flexvolume"
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/plugins/prober"
)

// FlexDrivers returns what finds the FlexVolume drivers on the node's disk. It must be notified of
// changes of flexvolume.Dir. It is created by the first call, or when the kubelet starts on a disk
// that has that directory: a kubelet without drivers has no tasks for them.
func (k *Kubelet) FlexDrivers() *prober.Directory {
	if k.flexDrivers == nil {
		k.flexDrivers = prober.New(prober.Config{
			Process: k.cfg.Process, Manager: &k.kinds, FS: k.cfg.FS, Dir: k.machine().Path(flexvolume.Dir),
			New: func(ctx context.Context, program, name string) (plugins.Plugin, error) {
				return flexvolume.New(ctx, flexvolume.Config{
					Process: k.cfg.Process, FS: k.cfg.FS, Root: k.cfg.Root, Client: k.cfg.Client,
				}, program, name)
			},
			Gone: func(string) { k.volumes.PluginsChanged() },
		})
	}
	return k.flexDrivers
}

// findFlexDrivers begins to look for drivers if the disk has their directory.
func (k *Kubelet) findFlexDrivers() {
	if there, err := k.cfg.FS.Exists(k.machine().Path(flexvolume.Dir)); err != nil || there {
		k.FlexDrivers().Notify("")
	}
}

// awaitsPlugin reports whether a driver exists whose program has not answered yet; "" asks for any.
func (k *Kubelet) awaitsPlugin(name string) bool {
	return k.flexDrivers != nil && k.flexDrivers.Awaits(name)
}

// machine returns the node's disk.
func (k *Kubelet) machine() hostpath.Machine { return hostpath.Machine{FS: k.cfg.FS, Root: k.cfg.Root} }
