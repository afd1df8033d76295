package kubelet

import (
	"github.com/volsim/volsim/internal/podfiles"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/plugins/local"
	"github.com/volsim/volsim/plugins/nfs"
)

// volumeKinds returns the plugins of the kubelet.
//
// Upstream: cmd/kubelet/app ProbeVolumePlugins (v1.36).
func (k *Kubelet) volumeKinds() []plugins.Plugin {
	files := podfiles.Plugins(podfiles.Config{
		Disk:   podfiles.Disk{Process: k.cfg.Process, FS: k.cfg.FS, Root: k.cfg.Root},
		Client: k.cfg.Client, Allocatable: nodeResources,
	})
	machine := hostpath.Machine{FS: k.cfg.FS, Root: k.cfg.Root}
	return append(append(files,
		hostpath.New(hostpath.Config{Caller: k.cfg.Process, Machine: machine}),
		local.New(local.Config{Process: k.cfg.Process, Machine: machine}),
		nfs.New(nfs.Config{Process: k.cfg.Process, FS: k.cfg.FS, Root: k.cfg.Root, Servers: k.cfg.NFS}),
		gitRepo{root: k.cfg.Root},
		k.csi), k.cfg.Plugins...)
}
