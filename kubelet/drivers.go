package kubelet

import (
	"context"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/volsim/volsim/kubelet/pluginmanager"
	"github.com/volsim/volsim/plugins"
)

// registryDir is where plugins create their registration sockets, below the kubelet's root.
//
// Upstream: pkg/kubelet/config DefaultKubeletPluginsRegistrationDirName.
const registryDir = "plugins_registry"

func (k *Kubelet) newPlugins() *pluginmanager.Manager {
	return pluginmanager.New(pluginmanager.Config{
		Process: k.cfg.Process, Sockets: k.cfg.Sockets, Dir: filepath.Join(k.cfg.Root, registryDir),
		Handlers: map[string]plugins.Registrar{registration.CSIPlugin: k.csi},
	})
}

// Plugins returns the plugin manager, which must be notified of changes of plugin sockets.
func (k *Kubelet) Plugins() *pluginmanager.Manager { return k.plugins }

// registerDrivers initializes the node's CSINode, and then allows drivers to register.
//
// Upstream: pkg/volume/csi initializeCSINode (v1.36).
func (k *Kubelet) registerDrivers(ctx context.Context) error {
	if k.driversAllowed {
		return nil
	}
	var uid types.UID
	if node, err := k.nodes.Get(k.cfg.Node); err == nil {
		uid = node.UID
	}
	if err := k.csi.InitializeCSINode(ctx, uid); err != nil {
		return err
	}
	k.driversAllowed = true
	k.plugins.Scan()
	return nil
}
